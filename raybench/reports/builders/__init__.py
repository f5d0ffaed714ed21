"""A report of each kind of document: a module a command, and the table of them all."""
