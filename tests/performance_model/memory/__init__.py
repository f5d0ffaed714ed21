"""What a rank holds: counted, published and told."""
