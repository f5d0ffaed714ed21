"""One training step before it is run: what is asked, what is sent, between which bounds it takes its time."""
