"""Compiled loops over packed codes: Hamming scan, multi-index hashing, histograms for metrics."""
