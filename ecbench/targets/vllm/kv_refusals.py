"""A request that vLLM does not take is a result, not the end of a run."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ecbench.core.errors import EcbenchError
from ecbench.kv_offload.real_scheduler import RequestRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def refusing() -> Iterator[None]:
    """Turns what vLLM raises about a request into `RequestRefusedError`, with vLLM's own words.

    Raises:
        RequestRefusedError: vLLM raised anything but an interruption.
    """
    try:
        yield
    except EcbenchError:
        raise
    except Exception as error:
        raise RequestRefusedError(f"{type(error).__name__}: {error or 'without a word'}") from error
