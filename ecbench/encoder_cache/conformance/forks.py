"""Forked processes inside a check: another rank, or one that is to be killed."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from ecbench.core.conformance_protocols import NotApplicableError
from ecbench.encoder_cache.conformance.definitions import describe_error

if TYPE_CHECKING:
    from collections.abc import Callable

_NOT_APPLICABLE = 77
"""Exit status of a child that raised `NotApplicableError`, by the custom of other test tools."""


class Ended:
    """How a forked process ended."""

    def __init__(self, error: str, signal_name: str | None) -> None:
        self.error = error
        self.signal = signal_name


def run_forked(work: Callable[[], object]) -> Ended:
    """Forks, runs something in the child, and waits for its end.

    Raises:
        NotApplicableError: The child raised it.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _run_and_exit(work, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        error = pipe.read().decode(errors="replace")
    _, status = os.waitpid(pid, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == _NOT_APPLICABLE:
        raise NotApplicableError(error)
    return Ended(error, signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else None)


def _run_and_exit(work: Callable[[], object], writing: int) -> None:
    code = 1
    try:
        work()
        code = 0
    except NotApplicableError as error:
        code = _NOT_APPLICABLE
        os.write(writing, str(error).encode()[:4096])
    except BaseException as error:
        os.write(writing, describe_error(error).encode()[:4096])
    finally:
        # No clean-up of the parent's objects: this is a copy of them.
        os._exit(code)
