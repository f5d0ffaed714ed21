"""What can keep a node from the state that was asked for."""


class NodeError(Exception):
    """Why the node is not as asked for, and what to do."""
