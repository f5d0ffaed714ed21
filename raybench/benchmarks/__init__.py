"""What is measured. The code here runs inside a rank, under Ray, under torchrun or in a test, and never imports Ray."""
