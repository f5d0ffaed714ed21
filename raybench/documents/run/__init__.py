"""What a run measured: its result, the points of each kind of workload, and the verdict that follows from them."""
