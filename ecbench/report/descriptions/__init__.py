"""Documents, one file per kind of result."""
