"""Benchmarks: speed relative to other software, and how cost grows with size."""
