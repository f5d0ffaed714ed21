"""The nearest training that fits where the one that is asked does not."""
