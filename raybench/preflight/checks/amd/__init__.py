"""Checks of AMD's GPUs, by amd-smi, or rocm-smi where there is no amd-smi."""
