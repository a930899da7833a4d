"""Published datasets, read as their authors distribute them."""
