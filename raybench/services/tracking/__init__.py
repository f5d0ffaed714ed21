"""``--track``: experiment trackers hear of a run while it goes on, and of its verdict at the end."""
