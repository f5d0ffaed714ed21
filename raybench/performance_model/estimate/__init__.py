"""A training run before it is run: what is asked, what is left open, and the answer."""
