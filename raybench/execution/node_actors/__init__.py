"""The node actors of a run: placed by Ray, they start the ranks and speak for them."""
