"""Hosts of an inventory: playbooks through ansible-runner, files over SSH, and our own Ray cluster over them."""
