"""Samples that somebody else took, in the format of their tool: a format a file, listed in ``formats.py``."""
