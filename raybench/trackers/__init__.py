"""Experiment trackers: one file each behind ``base.Tracker``, in a process of its own that no run waits for."""
