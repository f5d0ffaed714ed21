"""Memory of one rank in training: what is kept, what comes and goes, and how much that makes."""
