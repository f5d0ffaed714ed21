"""Faults of agents, hosts and links while real commands work: tables of one row a fault, and what judges them."""
