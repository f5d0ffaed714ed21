"""What is right and what is wrong before anything is benchmarked: probes' output to verdicts. Pure."""
