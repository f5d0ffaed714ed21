"""The diagnostics agent: a small process beside the ranks of a machine that samples it and warns while they run."""
