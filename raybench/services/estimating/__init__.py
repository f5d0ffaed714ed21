"""What a training run will send, hold, take and cost, before it is run; corrected by trainings that were."""
