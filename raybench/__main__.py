"""``python -m raybench``: the same as ``raybench``, for where the script is not on the PATH."""

from raybench.cli import main

main()
