"""Collectives and point-to-point operations over message sizes: driven, verified, combined."""
