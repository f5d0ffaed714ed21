"""Exposed communication: how much of it a step waits for, by estimators that share nothing but the step."""
