"""From a trained method to numbers and pictures."""
