"""Process rounds for ``selftest``: a server that has everything imported and forks a fresh process for each.

    python -m ecbench.workflows.selftest_worker

Reads a `RoundRequest` per line of stdin and answers each with a `RoundAnswer` on a line of stdout. The server itself
touches no device, so its children may: an accelerator's driver does not survive a fork.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

import msgspec
import torch

from ecbench.core.descriptors import Direction
from ecbench.core.errors import EcbenchError, ExitCode
from ecbench.core.host_memory import HostMemoryKind
from ecbench.core.records import Record
from ecbench.engine.copy_engines.delaying import DelayingEngine
from ecbench.measure.stages import StageClock
from ecbench.workflows.case_runs import went_wrong
from ecbench.workflows.round_trip import RoundTripOptions, prepare_round_trip, run_round_trip, with_engine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.core.records import CaseResult, Sample

READY = b"ready\n"
"""The server's first line, when everything is imported."""


def direction_of(leg: str) -> Direction:
    """Which way the bytes of a leg go."""
    return Direction.TO_DEVICE if leg == "load" else Direction.TO_HOST


class RoundRequest(Record, frozen=True, kw_only=True):
    """One process round to run."""

    scenario: str
    device: str
    engine: str
    writer: str
    rounds: int
    """Rounds that count."""
    seed: int
    delay: float
    """What every round is to take longer, as a share of its own time."""
    engine_shares: dict[str, float] = msgspec.field(default_factory=dict)
    """Share of a round that is spent in the engine, where the delay is made, by direction; all of it where missing."""

    @property
    def options(self) -> RoundTripOptions:
        """The same as options of a round trip."""
        return RoundTripOptions(
            scenarios=(self.scenario,),
            device=self.device,
            engine=self.engine,
            writer=self.writer,
            rounds=self.rounds,
            seed=self.seed,
            host_memory=HostMemoryKind.PINNED,
        )

    @property
    def engine_delays(self) -> dict[Direction, float]:
        """Delay of each direction as a share of the engine's time."""
        delays = dict.fromkeys(Direction, self.delay)
        return delays | {direction_of(leg): self.delay / share for leg, share in self.engine_shares.items()}


class RoundAnswer(Record, frozen=True, kw_only=True):
    """What a process round found."""

    totals_s: dict[str, list[float]] = msgspec.field(default_factory=dict)
    """`Sample.total_s` of each round that counts, by direction."""
    engine_shares: dict[str, float] = msgspec.field(default_factory=dict)
    """Share of the rounds that was spent in the engine, by direction."""
    error: str | None = None
    """Why there are no times."""
    exit_code: int = 0
    """The exit code that the error calls for."""


def measure_process_round(request: RoundRequest) -> RoundAnswer:
    """Runs a process round in this process."""
    try:
        prepared = prepare_round_trip(request.options)
        slowed = with_engine(prepared, lambda engine: DelayingEngine(engine, request.engine_delays))
        result = run_round_trip(slowed, StageClock(), lambda *_: None)
    except EcbenchError as error:
        return RoundAnswer(error=str(error), exit_code=error.exit_code)
    if not result.complete:
        return RoundAnswer(error=result.ended_by or "interrupted", exit_code=ExitCode.UNAVAILABLE)
    return _answer(result.cases[0])


def _answer(case: CaseResult) -> RoundAnswer:
    for leg in case.legs:
        if went_wrong(leg):
            error = f"{case.case_id} {leg.direction}: {leg.reason}: run ecbench roundtrip to see more"
            return RoundAnswer(error=error, exit_code=ExitCode.CHECK_FAILED)
    return RoundAnswer(
        totals_s={leg.direction: [sample.total_s for sample in leg.samples] for leg in case.legs},
        engine_shares={leg.direction: _engine_share(leg.samples) for leg in case.legs},
    )


def _engine_share(samples: Sequence[Sample]) -> float:
    """Of the shortest round, in which nothing was interrupted.

    On an accelerator, the copy lies within the submission, since the delaying engine waits for it there.
    """
    shortest = min(samples, key=lambda sample: sample.total_s)
    return min(1.0, (shortest.submit_s + shortest.copy_s) / shortest.total_s)


def serve() -> None:
    """Answers requests until stdin ends."""
    # One thread: a child has only the thread that forked it, and would wait for the others forever.
    torch.set_num_threads(1)
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(_answer_in_child(line) + b"\n")
        sys.stdout.buffer.flush()


def _answer_in_child(request: bytes) -> bytes:
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        _answer_and_exit(request, write_end)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if answer:
        return answer
    code = os.waitstatus_to_exitcode(status)
    how = f"it was ended by signal {-code}" if code < 0 else f"it ended with {code}"
    return msgspec.json.encode(RoundAnswer(error=f"{how} and said nothing: run it again", exit_code=ExitCode.BAD_DATA))


def _answer_and_exit(request: bytes, write_end: int) -> NoReturn:
    """Ends the child without the clean-up of the server that it is a copy of."""
    try:
        answer = measure_process_round(msgspec.json.decode(request, type=RoundRequest))
    except Exception as error:  # the parent reports whatever happened here
        answer = RoundAnswer(error=f"{type(error).__name__}: {error}", exit_code=ExitCode.BAD_DATA)
    with os.fdopen(write_end, "wb") as pipe:
        pipe.write(msgspec.json.encode(answer))
    os._exit(0)


if __name__ == "__main__":
    serve()
