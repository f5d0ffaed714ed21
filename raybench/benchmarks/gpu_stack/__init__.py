"""What driver, CUDA and torch of this machine are, read in a process of its own: a driver may hang, an import crash."""
