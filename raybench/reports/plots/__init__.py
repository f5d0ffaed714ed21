"""Plots of runs and studies, as figures that a page takes in as SVG."""
