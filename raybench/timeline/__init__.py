"""What the agents sampled, beside what the run measured: kept while it runs, joined on one clock, judged together."""
