"""Training of networks: settings, mini-batches, the loop, checkpoints and several processes."""
