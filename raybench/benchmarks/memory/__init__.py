"""Memory of one rank in training, part by part and by batch size, and the largest batch that fits."""
