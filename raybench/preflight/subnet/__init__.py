"""What tools that manage a fabric say of its ports, ``raybench fabric import``: read as facts, then judged. Pure."""
