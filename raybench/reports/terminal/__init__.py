"""A run on a terminal or in a pipe."""
