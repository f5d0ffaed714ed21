"""Ranks, nodes and pairs beside their peers: who is slower than the others, beyond the noise. Pure."""
