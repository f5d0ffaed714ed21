"""What other tools measured, as sides: tables and files of nccl-tests, and files of NCCL Inspector."""
