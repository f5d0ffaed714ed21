"""How a model is trained, as far as memory, traffic and time depend on it."""
