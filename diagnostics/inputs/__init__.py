"""What is read: files, pipes, folders and archives, the jobs in them, and dumps of the flight recorder."""
