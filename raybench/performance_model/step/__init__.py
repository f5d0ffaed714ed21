"""One training step before it is run: what is computed and sent, and between which bounds it takes its time."""
