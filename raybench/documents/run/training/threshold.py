"""From where on a training's share of loading, and its memory, are worth a look."""

HIGH_DATA_SHARE = 0.10  # of a step: what is saved by loading faster is worth a look
TIGHT_MEMORY = 0.8  # of the device's memory: fragmentation and a longer sample may take the rest
