"""A training run before it is run: its step, its memory, what is left open, and the answer."""
