"""Commands about results that exist."""
