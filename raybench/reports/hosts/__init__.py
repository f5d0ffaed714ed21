"""How what was done on the hosts of an inventory is shown."""
