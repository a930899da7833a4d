"""Reports of studies: tables, figures and tests of the paper's claims, from result files."""
