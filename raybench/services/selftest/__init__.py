"""``raybench selftest``: a table of checks over what was read of the machine and what small runs on it measured."""
