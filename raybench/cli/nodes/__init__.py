"""``raybench nodes``, a module a receiver of verdicts."""
