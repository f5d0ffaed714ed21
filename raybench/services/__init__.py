"""What a command does, without a command line: options in, documents and their exit code out."""
