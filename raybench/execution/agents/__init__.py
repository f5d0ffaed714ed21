"""The agents of a run's nodes: placed by Ray, they start the ranks and speak for them."""
