"""What can be learned: sets of samples made on the spot, or read from local files, and how they reach the device."""
