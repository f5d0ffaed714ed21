"""A cluster on one machine: nodes made of Linux namespaces, links whose rate can be set. Start in ``cluster.py``."""
