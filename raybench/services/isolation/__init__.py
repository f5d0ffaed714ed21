"""A run whose suspects are measured again, and which goes on without those at fault."""
