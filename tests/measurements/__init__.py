"""Measurements against torchrun, run by hand (``make bench-parity``); pytest does not collect them.

Every comparison alternates its sides round by round, launches fresh processes each time, states an interval over
rounds (comparison.py), and prints an A/A control (torchrun against torchrun) beside it.
"""
