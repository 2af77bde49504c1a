"""Byte-verified benchmarks and diagnostics for encoder-cache and KV-offload transfers of vLLM-style engines.

Importing this package imports neither torch nor NumPy, so that ``ecbench --help`` answers at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ecbench.core.errors import EcbenchError
from ecbench.version import __version__

if TYPE_CHECKING:
    from os import PathLike

    import pandas as pd

__all__ = ["EcbenchError", "__version__", "load"]


def load(path: str | PathLike[str]) -> pd.DataFrame:
    """Loads the samples of a result for a notebook.

    Args:
        path: JSON that ``roundtrip`` or ``sweep`` wrote with ``--json`` or ``--out``.

    Returns:
        A row per sample; columns carry their units (``total_s``, ``copied_bytes``, ``bandwidth_bytes_per_s``), and each
        parameter of a case is a column ``param_NAME``. Legs without samples (skipped, refused) have no row.

    Raises:
        EcbenchError: The file cannot be read, is no such result, or holds an impossible time.
    """
    # By name and only now: it imports pandas, and no room may depend on another by importing this package.
    table: pd.DataFrame = import_module("ecbench.report.tables").load_samples(path)
    return table
