"""How every command shows its options, and completes them: one vocabulary, in topics, on one screen."""
