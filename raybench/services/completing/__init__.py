"""What can follow on a command line that is being typed."""
