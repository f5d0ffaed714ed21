"""The Ray node that raybench owns on a host. Standard library only, Python 3.8 or newer: hosts run what they have."""
