"""Speed against other programs, as ratios measured side by side in one run."""
