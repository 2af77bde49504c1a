"""The package's version, without importing anything else."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("ecbench")
except PackageNotFoundError:  # a source tree that was not installed
    __version__ = "0+unknown"
