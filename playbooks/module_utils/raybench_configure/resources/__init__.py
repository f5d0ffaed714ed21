"""What a host has that can be read, set and set back: files, values of the kernel, units, packages, registers."""
