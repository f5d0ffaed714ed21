"""What is said of a run while it goes on: ranks that stand still or are slow, what agents find, how far it is."""
