"""Devices, by name."""
