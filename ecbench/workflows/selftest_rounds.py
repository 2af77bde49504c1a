"""Runs the process rounds of a self-test in turns: which delay is run when, and where."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from statistics import median
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from ecbench.core.errors import DataError, EcbenchError, ExitCode, error_class_of
from ecbench.core.selftest_records import ProcessRound
from ecbench.stats.error_rates import DELAYS, UNCHANGED_PER_TURN
from ecbench.workflows.selftest_worker import READY, RoundAnswer, RoundRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CALIBRATION_ROUNDS = 3
"""Their median survives one that the machine disturbed."""
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Libraries that start threads when they are imported would leave the children of a fork without them."""

RunRound = Callable[[RoundRequest], RoundAnswer]


class WarmServer:
    """A process of `ecbench.workflows.selftest_worker`, ready to fork.

    Args:
        process: The server; its stdin and stdout are pipes.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def run_round(self, request: RoundRequest) -> RoundAnswer:
        """Has a process round run in a process of its own.

        Raises:
            DataError: The server is gone.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(msgspec.json.encode(request) + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            raise DataError("the process that starts process rounds is gone: run the self-test again")
        return msgspec.json.decode(line, type=RoundAnswer)


@contextmanager
def warm_server() -> Iterator[WarmServer]:
    """Starts a server; it and its children are gone at the end, also after Ctrl-C.

    Raises:
        DataError: It did not start.
    """
    command = [sys.executable, "-m", "ecbench.workflows.selftest_worker"]
    # A session of its own: Ctrl-C reaches only this process, which ends the server and its child together.
    with subprocess.Popen(  # noqa: S603 - our own command
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | _ONE_THREAD, start_new_session=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if process.stdout.readline() != READY:
                raise DataError("the process that starts process rounds did not start: look at what it said above")
            yield WarmServer(process)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(BrokenPipeError):
                process.stdin.close()


def rounds_of_a_turn(delays: Sequence[float]) -> tuple[float, ...]:
    """Delays of a turn's process rounds, in no order yet: none as often as a pair needs it, and each of those given."""
    return (*(0.0,) * UNCHANGED_PER_TURN, *delays)


def turn_orders(delays: Sequence[float], seed: int) -> Iterator[tuple[float, ...]]:
    """Delays in the order in which they are run: shuffled, and every second turn backwards.

    A drift then favours none of them, as with base and new in ABBA order.
    """
    draw = np.random.default_rng([seed, 1])
    while True:
        order = tuple(float(delay) for delay in draw.permutation(rounds_of_a_turn(delays)))
        yield order
        yield order[::-1]


def run_turns(
    run_round: RunRound,
    request: RoundRequest,
    *,
    most: int,
    least: int = 0,
    budget_s: float = math.inf,
    delays: Sequence[float] = DELAYS,
) -> Iterator[list[ProcessRound]]:
    """Runs turn after turn.

    Args:
        run_round: Runs one process round.
        request: What each of them is asked, but for the delay.
        most: Turns after which it ends.
        least: Turns that are run whatever they take.
        budget_s: Seconds after which no further turn is started.
        delays: What is injected, beside nothing.

    Yields:
        The process rounds of one turn.

    Raises:
        EcbenchError: A process round failed; the class fits its exit code.
    """
    began = time.perf_counter()
    request = msgspec.structs.replace(request, engine_shares=_calibrate(run_round, request))
    for turn, order in zip(range(most), turn_orders(delays, request.seed), strict=False):
        if turn >= least and time.perf_counter() - began > budget_s:
            return
        yield [
            ProcessRound(turn=turn, place=place, delay=delay, totals_s=_run(run_round, request, delay).totals_s)
            for place, delay in enumerate(order)
        ]


def _calibrate(run_round: RunRound, request: RoundRequest) -> dict[str, float]:
    """Share of a round that its engine takes, by direction, from process rounds that are not counted."""
    answers = [_run(run_round, request, 0.0) for _ in range(CALIBRATION_ROUNDS)]
    return {leg: median(answer.engine_shares[leg] for answer in answers) for leg in answers[0].engine_shares}


def _run(run_round: RunRound, request: RoundRequest, delay: float) -> RoundAnswer:
    answer = run_round(msgspec.structs.replace(request, delay=delay))
    if answer.error is not None:
        raise _failure(answer)
    return answer


class _WrongRoundError(EcbenchError):
    """A process round with wrong bytes or a refused copy."""

    exit_code = ExitCode.CHECK_FAILED


def _failure(answer: RoundAnswer) -> EcbenchError:
    wrong = answer.exit_code == ExitCode.CHECK_FAILED
    return (_WrongRoundError if wrong else error_class_of(answer.exit_code))(f"a process round failed: {answer.error}")
