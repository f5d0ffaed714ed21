"""What one node's processors and GPUs compute under a short load: ``raybench preflight --level 2|3``.

Runs on the host, in whatever Python has torch there: its source is sent, and raybench need not be installed. So it
imports torch only where a test needs it, nothing of raybench outside this folder (of the diagnostics agent alone
the sources of GPU readings), and knows Python 3.9. It measures
and compares results; what a figure means is judged on the control node (``raybench/preflight/node_tests``).
"""
