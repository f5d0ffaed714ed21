"""``raybench nodes``: verdicts of nodes handed to schedulers and monitoring, one module a receiver."""
