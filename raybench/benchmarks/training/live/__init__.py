"""What is said of a training while it runs: its progress, and the ranks that hold it up."""
