"""Finds where Python sources store or compute with addresses in a way that an address >= 2**63 breaks.

The sources are read, never imported. `taint` follows addresses through a file, `rules` judges what is done with them,
`sources` finds and reads the files; `suppressions` and `baseline` decide which findings still count.
"""
