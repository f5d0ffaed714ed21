"""What broke or holds up a run: who is at fault and who only waits. Mostly pure."""
