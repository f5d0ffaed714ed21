"""Models by their config.json, beside what transformers makes of them."""
