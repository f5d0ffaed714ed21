"""What can be said without measuring: hardware, sizes and operations of models, communication, memory, time, cost."""
