"""Active tests of nodes, ``raybench preflight --level 2|3``: what is asked of hosts, and what their figures mean. Pure.

``raybench/benchmarks/node_tests`` measures on the hosts.
"""
