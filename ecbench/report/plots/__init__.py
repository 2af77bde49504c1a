"""Plots, by matplotlib. One file per plot; `ecbench.report.plots.catalogue` says which result gets which."""
