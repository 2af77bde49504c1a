"""Byte-verified benchmarks and diagnostics for encoder-cache and KV-offload transfers of vLLM-style engines.

Importing this package imports neither torch nor NumPy, so that ``ecbench --help`` answers at once.
"""

from ecbench.core.errors import EcbenchError
from ecbench.version import __version__

__all__ = ["EcbenchError", "__version__"]
