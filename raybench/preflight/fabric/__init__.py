"""The fabric between hosts, pair by pair: which pairs to measure, what to expect, what is at fault. Pure."""
