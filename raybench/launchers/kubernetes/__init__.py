"""Kubernetes: manifests of a run, the program inside of a pod, and what pods and events say of one that does not go."""
