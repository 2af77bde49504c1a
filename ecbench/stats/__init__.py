"""Figures that follow from samples."""
