"""What to train a model with, before it is paid for."""
