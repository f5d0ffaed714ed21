"""GPUs and nodes by their exact names: published rates with their sources. What is unknown stays unknown."""
