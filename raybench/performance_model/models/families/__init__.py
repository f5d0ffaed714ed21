"""Shapes from the fields of a ``config.json``, a module for each kind of architecture."""
