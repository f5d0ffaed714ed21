"""Peaks and step times of trainings on a real GPU, and the trainings."""
