"""From raw lines to events: what can matter is found, read in full once, and counted after that."""
