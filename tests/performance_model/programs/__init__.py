"""Programs that train, held against what was published of them."""
