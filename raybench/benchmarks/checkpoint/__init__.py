"""Checkpoints of a sharded model: how long training stands still, how fast they are written and read, and if right."""
