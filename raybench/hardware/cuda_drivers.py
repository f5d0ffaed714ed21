"""Which driver a version of CUDA needs. The table is ``cuda_drivers.csv``, each row with its source."""

from raybench.hardware.tables import read_table


def least_driver(cuda_major: int) -> int | None:
    """The oldest branch of the driver (580) that runs programs of a major version of CUDA; None where not known."""
    return _LEAST.get(cuda_major)


_LEAST = {
    int(row["cuda_major"]): int(row["least_driver"]) for row in read_table("raybench.hardware", "cuda_drivers.csv")
}
