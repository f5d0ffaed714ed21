"""The documents that commands write, one module each: typed, immutable, written and loaded by the same code."""
