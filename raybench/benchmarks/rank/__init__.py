"""One rank: its life, where it is, and which operations it enters."""
