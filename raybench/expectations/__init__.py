"""What a healthy system reaches, and a run beside it or beside an earlier run."""
