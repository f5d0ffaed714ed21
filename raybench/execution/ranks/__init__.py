"""The ranks of a node: one process that holds them, forked once torch is there, and what each of them does."""
