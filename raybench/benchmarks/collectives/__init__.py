"""One file a collective: what it sends, what must arrive, how it is called, and how its bus bandwidth is counted.

Bus-bandwidth factors are those of nccl-tests; each is derived again in its file and in docs/methods.md.
"""
