"""What is told of a training before it is run: an estimate whole and on one screen, and a plan."""
