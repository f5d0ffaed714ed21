"""Commands that plan a training."""
