"""Several results beside each other, baselines of many runs, and the history of a folder of runs."""
