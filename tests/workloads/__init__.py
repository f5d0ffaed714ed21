"""A workload that is none of raybench, installed as a package, through everything a run does."""
