"""Where ranks run: Ray clusters found or embedded, placement, the node agent, and the watch over a run."""
