"""From the start of the processes to a complete communicator: interfaces, rendezvous, who meets whom."""
