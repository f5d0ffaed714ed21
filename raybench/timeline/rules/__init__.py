"""A question to a run and its samples a file: ``judge(timeline)`` gives findings, or why it cannot tell."""
