"""Results that people keep: compared, gated, tracked."""
