"""Training steps of known models over all ranks: how long they take, what of it is communication, and whether it is right."""
