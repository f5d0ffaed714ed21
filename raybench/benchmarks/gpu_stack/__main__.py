"""``python -m raybench.benchmarks.gpu_stack``: a line of JSON of the driver, then one of torch."""

import sys

import msgspec

from raybench.benchmarks.gpu_stack.driver import read_driver


def main() -> None:
    """Print both readings, each as soon as it is there."""
    _print(read_driver().to_json())
    from raybench.benchmarks.gpu_stack.torch_build import read_torch

    _print(read_torch().to_json())


def _print(content: object) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(content) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
