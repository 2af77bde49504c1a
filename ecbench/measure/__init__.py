"""Rounds, content, byte verification and the clock of a command's own stages."""
