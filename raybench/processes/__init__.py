"""Processes, folders and sockets that are ours: owned by a mark, ended in order, read only where trusted."""
