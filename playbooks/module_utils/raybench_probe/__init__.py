"""What the module ``raybench_probe`` reads of a host, a room a kind of reading. Judges nothing, changes nothing."""
