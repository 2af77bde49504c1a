"""Devices, copy engines and facts about the machine."""
