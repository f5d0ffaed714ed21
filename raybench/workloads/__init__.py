"""What training, memory and checkpoint benchmarks measured: immutable points beside the collectives' of ``results``."""
