"""Encoder-cache workloads: models as data, scenarios, and how entries come to lie in a region."""
