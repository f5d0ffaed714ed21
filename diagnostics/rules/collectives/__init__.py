"""Collectives that do not match, hang or are slow, and what observers say of them."""
