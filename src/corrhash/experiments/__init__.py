"""Studies: plans, experiments, results and reports."""
