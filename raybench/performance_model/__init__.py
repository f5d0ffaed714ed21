"""What can be said without measuring: sizes and operations of models, communication, memory, time, cost."""
