"""A host's part of ``raybench_node_test``: which Python has torch, and the process of the tests, within its time."""
