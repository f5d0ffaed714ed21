"""Ways to train a model on a machine, as ``raybench plan`` compares them."""
