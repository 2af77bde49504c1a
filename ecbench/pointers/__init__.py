"""Addresses with the top bit set: how torch and NumPy store them, and where a source tree stores them unsafely."""
