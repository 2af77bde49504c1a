"""Copies that wait until they are told to run, as those of a busy device do: what a worker forgets meanwhile, shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.core.descriptors import PreparedCopy
from ecbench.engine.devices.cpu import CpuDevice, HostStream
from ecbench.engine.devices.xpu_sim import XpuSimDevice

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecbench.core.descriptors import DescriptorBatch
    from ecbench.core.protocols import CopyEngine, Event, Stream


class HeldWork:
    """Work of all streams in the order of its submission."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], object]] = []
        self.lost = False

    def add(self, work: Callable[[], object]) -> None:
        """Queues something."""
        self._waiting.append(work)

    def run(self) -> None:
        """Does everything that waits."""
        waiting, self._waiting = self._waiting, []
        for work in waiting:
            work()

    def discard(self) -> None:
        """Forgets everything that waits, as the end of a process does."""
        self._waiting.clear()

    def refuse_if_lost(self) -> None:
        """Raises what a driver raises for a device that is gone.

        Raises:
            RuntimeError: The device was lost.
        """
        if self.lost:
            raise RuntimeError("the device was lost")


class HeldEvent:
    """A mark that is reached when the work before it was done.

    Args:
        work: Where marks are queued.
    """

    def __init__(self, work: HeldWork) -> None:
        self._work = work
        self._reached = False

    def record(self, stream: Stream, /) -> None:  # noqa: ARG002 - the protocol's signature
        """Queues the mark."""
        self._reached = False
        self._work.add(self._reach)

    def _reach(self) -> None:
        self._reached = True

    def query(self) -> bool:
        """Tells whether the work before the mark was done."""
        self._work.refuse_if_lost()
        return self._reached

    def synchronize(self) -> None:
        """Does not wait: held work runs when it is told to."""
        self._work.refuse_if_lost()

    def seconds_until(self, end: Event, /) -> float:  # noqa: ARG002 - the protocol's signature
        """No time is taken."""
        return 0.0


class HeldCpuDevice(CpuDevice):
    """The CPU with copies that wait.

    Args:
        work: Where they wait.
    """

    copies_inside_submit = False

    def __init__(self, work: HeldWork) -> None:
        super().__init__()
        self._work = work

    def new_event(self) -> HeldEvent:  # type: ignore[override]
        """A mark among the held work."""
        return HeldEvent(self._work)


class HeldXpuSimDevice(XpuSimDevice):
    """The emulated XPU with copies that wait.

    Args:
        work: Where they wait.
    """

    copies_inside_submit = False

    def __init__(self, work: HeldWork) -> None:
        super().__init__()
        self._work = work

    def new_event(self) -> HeldEvent:  # type: ignore[override]
        """A mark among the held work."""
        return HeldEvent(self._work)


class HeldEngine:
    """Reads a batch's descriptors only when it runs, as a device does.

    Args:
        inner: Moves the bytes.
        work: Where copies wait.
    """

    def __init__(self, inner: CopyEngine, work: HeldWork) -> None:
        self._inner = inner
        self._work = work

    @property
    def name(self) -> str:
        """The inner engine's name."""
        return self._inner.name

    def prepare(self, batch: DescriptorBatch) -> PreparedCopy:
        """Takes the batch as it is; it is looked at when it runs."""

        def run(_: Stream) -> None:
            self._work.add(lambda: self._inner.prepare(batch).run(HostStream()))

        return PreparedCopy(self.name, threads=0, run=run)
