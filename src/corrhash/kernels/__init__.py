"""Compiled loops over packed codes: the exact scan and the histograms behind every score."""
