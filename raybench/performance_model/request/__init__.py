"""What is asked of an estimate, and the requests that follow: by a program, with more memory, or cut over ranks."""
