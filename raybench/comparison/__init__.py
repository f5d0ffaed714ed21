"""Results that exist beside each other: what differs in machine, configuration and environment, then each figure."""
