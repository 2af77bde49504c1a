"""One check in a process of its own: whatever ends the process is how the check ended."""

from __future__ import annotations

import ctypes
import gc
import os
import select
import signal
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, NoReturn

import msgspec
import psutil

from ecbench.core.conformance_records import ConformanceOutcome
from ecbench.encoder_cache.conformance.definitions import describe_error
from ecbench.encoder_cache.conformance.running import run_check
from ecbench.workflows.conformance_messages import FromCheck, Trying, Verdict, to_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecbench.core.conformance_protocols import ConformanceTarget
    from ecbench.encoder_cache.conformance.definitions import Check

OUTPUT_CHARACTERS = 2000
"""Of what a target printed, the end is kept."""
_READ_BYTES = 1 << 16
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_STDIN, _STDOUT, _STDERR = 0, 1, 2
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass
class IsolatedEnd:
    """How the process of a check ended.

    Args:
        messages: What it said.
        fault: What ended it before it was done; empty where nothing did.
        output: The end of what it printed.
        seconds: How long it took.
    """

    messages: list[FromCheck] = field(default_factory=list)
    fault: str = ""
    output: str = ""
    seconds: float = 0.0

    @property
    def verdict(self) -> Verdict:
        """What the process found, or what its end says."""
        tried = [message for message in self.messages if isinstance(message, Trying)]
        for message in self.messages:
            if isinstance(message, Verdict):
                return message
        given = tried[-1].given if tried else ""
        return Verdict(
            outcome=ConformanceOutcome.FAILED,
            happened=self.fault,
            smallest_input=given or None,
            reason=None,
            inputs=len(tried),
        )


def die_with_parent(signal_number: signal.Signals) -> None:
    """Has the kernel send this process a signal when the one that started it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal_number), 0, 0, 0)


def adopt_orphans() -> None:
    """Makes what a check's process leaves behind a child of this process, so that it can be ended."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def prepare_forks() -> None:
    """Lets forked processes share what is in memory now: their collector need not look at it."""
    gc.collect()
    gc.freeze()


def run_isolated(check: Check, target: ConformanceTarget, label: str, seed: int, limit_s: float) -> IsolatedEnd:
    """Runs a check in a forked process.

    Args:
        check: What to run.
        target: What to run it on.
        label: Unique to this check.
        seed: Of everything drawn.
        limit_s: After this long the process is killed.
    """

    def work(say: Callable[[FromCheck], None]) -> None:
        verdict = run_check(check, target, label, seed, lambda given: say(Trying(given=given)))
        say(
            Verdict(
                outcome=verdict.outcome,
                happened=verdict.happened,
                smallest_input=verdict.smallest_input,
                reason=verdict.reason,
                inputs=verdict.inputs,
            )
        )

    return run_forked(work, limit_s)


def run_forked(work: Callable[[Callable[[FromCheck], None]], None], limit_s: float) -> IsolatedEnd:
    """Forks, runs something in the child, and sees how it ends. Nothing of it is left afterwards.

    Args:
        work: Is given a function that says a message.
        limit_s: After this long the child is killed.
    """
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as output:
        known = {process.pid for process in psutil.Process().children()}
        began = time.monotonic()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _be_child(work, writing, output)
        os.close(writing)
        try:
            end = _watch(pid, reading, limit_s)
        finally:
            os.close(reading)
            end_strays(known)
        end.seconds = time.monotonic() - began
        end.output = _tail(output)
    return end


def _be_child(work: Callable[[Callable[[FromCheck], None]], None], writing: int, output: IO[bytes]) -> NoReturn:
    """Runs the work, and never comes back: everything else in memory belongs to the parent."""
    code = 1
    try:
        os.setpgid(0, 0)
        die_with_parent(signal.SIGKILL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), _STDIN)
        for stream in (_STDOUT, _STDERR):
            os.dup2(output.fileno(), stream)
        work(lambda message: _write_all(writing, to_line(message)))
        code = 0
    except BaseException as error:
        with suppress(OSError):
            os.write(_STDERR, f"{describe_error(error)}\n".encode(errors="replace"))
    finally:
        with suppress(Exception):
            sys.stdout.flush()
        os._exit(code)


def _write_all(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


def _watch(pid: int, reading: int, limit_s: float) -> IsolatedEnd:
    """Reads what the child says until it ends or its time is up."""
    said = bytearray()
    deadline = time.monotonic() + limit_s
    ended = os.pidfd_open(pid)
    watched = [reading, ended]
    alive = True
    try:
        while alive and (left_s := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select(watched, [], [], left_s)
            if reading in ready and not _read_some(reading, said):
                watched = [ended]
            alive = ended not in ready
        if alive:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(ended)
    # Whoever inherited the pipe may keep it open, so only what is there now is read.
    os.set_blocking(reading, False)
    with suppress(BlockingIOError):
        while _read_some(reading, said):
            pass
    fault = f"did not end within {limit_s:g} s and was killed" if alive else _fault(status)
    return IsolatedEnd(messages=_messages(bytes(said)), fault=fault)


def _read_some(reading: int, said: bytearray) -> bool:
    """Reads once; False at the end of the pipe."""
    content = os.read(reading, _READ_BYTES)
    said += content
    return bool(content)


def _messages(said: bytes) -> list[FromCheck]:
    messages = []
    for line in said.splitlines():
        # The last line of a process that was killed may be cut.
        with suppress(msgspec.DecodeError):
            messages.append(msgspec.json.decode(line, type=FromCheck))
    return messages


def _fault(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"the target's process was ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"the target ended its process with exit status {os.waitstatus_to_exitcode(status)}"


def end_strays(known: set[int]) -> None:
    """Ends every process below this one that is not known, and waits until it is gone.

    Args:
        known: Children that were there before.
    """
    while strays := [child for child in psutil.Process().children(recursive=True) if child.pid not in known]:
        for stray in strays:
            with suppress(psutil.NoSuchProcess):
                stray.kill()
        for stray in strays:
            # Those further down become children when their parents end.
            with suppress(ChildProcessError):
                os.waitpid(stray.pid, 0)


def _tail(output: IO[bytes]) -> str:
    output.seek(0)
    return output.read().decode(errors="replace")[-OUTPUT_CHARACTERS:].strip()
