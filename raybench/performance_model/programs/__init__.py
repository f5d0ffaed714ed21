"""Programs that train, and what each of them decides for its users."""
