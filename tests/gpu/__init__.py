"""The proof on a GPU: what raybench claims about one, step by step, with a record of each figure (docs/gpu.md)."""
