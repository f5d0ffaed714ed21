"""What the module ``raybench_probe`` reads of a host, one file per kind of reading. Judges nothing, changes nothing."""
