"""``raybench launch``: hand a command to a scheduler, follow it, bring its results home."""
