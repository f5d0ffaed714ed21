"""Runs of a history one after the other: what the newest of them leave open that those before did not. Pure."""
