"""How each kind of workload is shown: a module a kind, which ends with its ``DISPLAY``, and the table of them all."""
