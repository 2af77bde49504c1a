"""The process that holds a target: imports it once, then forks a process per check.

Started by `ecbench.workflows.conformance_session` as ``python -m``; reads requests from stdin and writes messages to
the descriptor it is given. Whatever the target prints goes to stderr, which is a file.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec
import torch

from ecbench.core.errors import EcbenchError, ExitCode
from ecbench.encoder_cache.conformance.completeness import refuse_incomplete, refuse_incomplete_parts
from ecbench.encoder_cache.conformance.registry import CHECKS
from ecbench.encoder_cache.conformance.running import names_of
from ecbench.targets.conformance_registry import open_target
from ecbench.workflows.check_isolation import (
    adopt_orphans,
    die_with_parent,
    end_strays,
    prepare_forks,
    run_forked,
    run_isolated,
)
from ecbench.workflows.conformance_messages import Judged, Opened, Refused, Request, Starting, to_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from ecbench.core.conformance_protocols import ConformanceTarget
    from ecbench.core.records import Record
    from ecbench.workflows.conformance_messages import FromCheck

_PARTS_LIMIT_S = 10.0
"""Making one part of each kind takes milliseconds; a target that hangs there is left to its checks."""


def main() -> None:
    """Serves one target until stdin ends."""
    name, label, descriptor = sys.argv[1], sys.argv[2], int(sys.argv[3])
    die_with_parent(signal.SIGTERM)
    adopt_orphans()
    # A pool of threads would not survive the forks.
    torch.set_num_threads(1)
    with os.fdopen(descriptor, "wb", buffering=0) as replies:
        server = ConformanceServer(replies)
        try:
            server.open(name, label)
        except EcbenchError as error:
            server.say(Refused(message=str(error), exit_code=int(error.exit_code)))
            return
        for line in sys.stdin.buffer:
            server.run(msgspec.json.decode(line, type=Request))


class ConformanceServer:
    """Holds a target.

    Args:
        replies: Where messages go.
    """

    def __init__(self, replies: IO[bytes]) -> None:
        self._replies = replies
        self._target: ConformanceTarget
        self._files: list[str] = []

    def say(self, message: Record) -> None:
        """Sends a message."""
        self._replies.write(to_line(message))

    def open(self, name: str, label: str) -> None:
        """Imports the target, makes it, and looks whether it is complete.

        Raises:
            EcbenchError: It cannot be checked.
        """
        target = open_target(name)
        refuse_incomplete(target)
        _refuse_unknown_differences(target)
        self._target = target
        prepare_forks()
        # Only now: an import that hangs in compiled code must not keep a signal from ending it.
        signal.signal(signal.SIGTERM, self.stop)
        self._announce(label)
        self._refuse_incomplete_parts(label)
        opened = Opened(
            version=target.version,
            device=target.device,
            stand_ins=list(target.stand_ins),
            known_differences=dict(target.known_differences),
        )
        self.say(opened)

    def _announce(self, label: str) -> None:
        """Says which files there may be from now on, so that they can be removed whatever becomes of this process."""
        self._files = _files_of(self._target, label)
        self.say(Starting(files=self._files))

    def _refuse_incomplete_parts(self, label: str) -> None:
        reading, writing = os.pipe()

        def look(_: Callable[[FromCheck], None]) -> None:
            try:
                refuse_incomplete_parts(self._target, names_of(label))
            except EcbenchError as error:
                os.write(writing, str(error).encode())

        with os.fdopen(reading, "rb") as complaints:
            run_forked(look, _PARTS_LIMIT_S)
            os.close(writing)
            complaint = complaints.read().decode()
        remove_files(self._files)
        if complaint:
            raise EcbenchError(complaint)

    def run(self, request: Request) -> None:
        """Runs a check, and says how it ended when nothing of it is left."""
        self._announce(request.label)
        end = run_isolated(CHECKS[request.check], self._target, request.label, request.seed, request.limit_s)
        verdict = end.verdict
        self.say(
            Judged(
                outcome=verdict.outcome,
                happened=verdict.happened,
                smallest_input=verdict.smallest_input,
                reason=verdict.reason,
                inputs=verdict.inputs,
                seconds=end.seconds,
                output=end.output,
                removed_files=remove_files(self._files),
            )
        )

    def stop(self, *_: object) -> NoReturn:
        """Ends the check that runs, removes its files, and leaves."""
        end_strays(set())
        remove_files(self._files)
        os._exit(int(ExitCode.INTERRUPTED))


def _refuse_unknown_differences(target: ConformanceTarget) -> None:
    unknown = sorted(set(target.known_differences) - set(CHECKS))
    if unknown:
        raise EcbenchError(
            f"target {type(target).__name__}: known_differences has {', '.join(unknown)}, which no check is called"
        )


def _files_of(target: ConformanceTarget, label: str) -> list[str]:
    return [path for name in names_of(label) for path in target.files(name)]


def remove_files(paths: list[str]) -> list[str]:
    """Removes what is there of some files.

    Args:
        paths: Exact names, unique to one check.

    Returns:
        Those that were there.
    """
    removed = []
    for path in paths:
        with suppress(FileNotFoundError):
            Path(path).unlink()
            removed.append(path)
    return removed


if __name__ == "__main__":
    main()
