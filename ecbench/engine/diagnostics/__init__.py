"""Checks of the machine, one small module per kind.

A check is a function from what it looks at (folders in place of /proc and /sys, a command runner, facts that were read
before) to one `Check`, so that every answer can be tested without the machine that gives it. The functions named
``read_*`` and ``find_*`` look; those named ``check_*`` judge. Nothing here changes the machine or leaves anything
behind.
"""
