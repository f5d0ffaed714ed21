"""Settings of a host that can be made, predicted and taken back: what ``raybench_configure`` and its rollback share.

Runs on the managed hosts with their own Python, 3.8 or newer, and the standard library only.
"""
