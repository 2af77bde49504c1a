"""The command line: one file per command, each from options to one workflow to an exit code."""
