"""Speed against other programs, and growth with size, as ratios measured in one run."""
