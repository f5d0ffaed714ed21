"""What a training's own figures say to change: what limits a step, and what to run next."""
