"""The reports of a run: whole, brief, for a terminal, for its screen."""
