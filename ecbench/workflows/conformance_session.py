"""The process that holds a target, as seen from the suite: started, asked, watched, and ended without a trace."""

from __future__ import annotations

import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

import msgspec

from ecbench.core.errors import EcbenchError, ExitCode, UnavailableError
from ecbench.workflows.conformance_messages import FromServer, Judged, Opened, Refused, Request, Starting, to_line

if TYPE_CHECKING:
    from types import TracebackType

OPEN_LIMIT_S = 300.0
"""The import of a large target takes a minute on a cold disk."""
_GRACE_S = 10.0
"""What the target's process has beyond a check's own limit, to end and clean up."""
_READ_BYTES = 1 << 16
_OUTPUT_CHARACTERS = 300


class ConformanceSession:
    """A target in a process of its own.

    Args:
        target: Its name, or ``module:Class``.
        open_limit_s: Time for its import.
    """

    def __init__(self, target: str, open_limit_s: float = OPEN_LIMIT_S) -> None:
        self._name = target
        self._label = f"ecbench-{os.getpid()}-{secrets.token_hex(4)}"
        self._checks = 0
        self._files: list[str] = []
        self._said = bytearray()
        self._open_limit_s = open_limit_s
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._reading, writing = os.pipe()
        try:
            self._process = self._start(writing)
        finally:
            os.close(writing)

    def _start(self, writing: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "ecbench.workflows.conformance_server"]
        return subprocess.Popen(  # noqa: S603 - this interpreter, and names that were checked
            [*command, self._name, f"{self._label}-parts", str(writing)],
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=self._output,
            pass_fds=[writing],
            # Ctrl-C is for the command: it decides when and how this process ends.
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def wait_until_open(self) -> Opened:
        """Waits for the import.

        Raises:
            EcbenchError: The target is not complete.
            UnavailableError: It cannot be imported or made, ended its process, or takes too long.
        """
        answer = self._receive(self._open_limit_s, "its import")
        if isinstance(answer, Opened):
            self._files = []
            return answer
        assert isinstance(answer, Refused)
        unavailable = answer.exit_code == ExitCode.UNAVAILABLE
        raise UnavailableError(answer.message) if unavailable else EcbenchError(answer.message)

    def run_check(self, check: str, seed: int, limit_s: float) -> Judged:
        """Runs a check.

        Args:
            check: Its name.
            seed: Of everything drawn.
            limit_s: After this long its process is killed.

        Raises:
            UnavailableError: The process that holds the target is gone.
        """
        self._checks += 1
        request = Request(check=check, label=f"{self._label}-{self._checks}", seed=seed, limit_s=limit_s)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(to_line(request))
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended(f"before {check}") from None
        answer = self._receive(limit_s + _GRACE_S, check)
        assert isinstance(answer, Judged)
        self._files = []
        return answer

    def close(self) -> None:
        """Ends the process, and removes the files of a check that was under way. May be called twice."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for path in self._files:
            with suppress(FileNotFoundError):
                os.unlink(path)  # noqa: PTH108 - a list of exact names
        self._files = []
        if self._reading >= 0:
            os.close(self._reading)
            self._reading = -1
            self._output.close()

    def _receive(self, limit_s: float, during: str) -> Opened | Refused | Judged:
        """The next message but for those that only name files, which are kept."""
        deadline = time.monotonic() + limit_s
        while True:
            answer = self._receive_any(deadline, limit_s, during)
            if not isinstance(answer, Starting):
                return answer
            self._files = answer.files

    def _receive_any(self, deadline: float, limit_s: float, during: str) -> FromServer:
        while b"\n" not in self._said:
            left_s = deadline - time.monotonic()
            ready, _, _ = select.select([self._reading], [], [], max(0.0, left_s))
            if not ready:
                raise UnavailableError(f"target {self._name}: {during} did not end within {limit_s:g} s: try it alone")
            content = os.read(self._reading, _READ_BYTES)
            if not content:
                raise self._ended(f"during {during}")
            self._said += content
        line, _, rest = self._said.partition(b"\n")
        self._said = rest
        return msgspec.json.decode(line, type=FromServer)

    def _ended(self, when: str) -> UnavailableError:
        code = self._process.wait(_GRACE_S)
        how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        self._output.seek(0)
        printed = " ".join(self._output.read().decode(errors="replace").split())[-_OUTPUT_CHARACTERS:]
        said = f"; it printed: {printed}" if printed else ""
        return UnavailableError(f"target {self._name}: its process ended with {how} {when}{said}")
