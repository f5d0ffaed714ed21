"""A suspect measured again with healthy partners: what to measure, and what that proves or withdraws."""
