"""Training steps of known models over all ranks: how long they take, what of it waits, and whether it is right."""
