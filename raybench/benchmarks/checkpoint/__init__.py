"""Checkpoints of a sharded model: how long training is blocked, how fast they are written and read, and if right."""
