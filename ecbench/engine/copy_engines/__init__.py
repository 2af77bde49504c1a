"""Ways to move a batch of descriptors, by name."""
