"""Streams and events of a GPU that does nothing until somebody waits, and then no more than it must.

A real GPU may run a stream at once or as late as the synchronisation allows, and a missing wait shows only in the order
that is wrong. So there are two orders, and tests run under both:

* `Order.LATE`: only what a wait demands runs. Work whose producer nobody waited for meets memory as it was before.
* `Order.OTHERS_FIRST`: before a wait is served, every other stream runs as far as it can. Work that frees, overwrites
  or reuses memory too early gets there first.

What neither order shows is noted in `FakeGpu.violations`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

BYTES_PER_S = 1e9
LAUNCH_S = 1e-6


class Order(StrEnum):
    LATE = "late"
    OTHERS_FIRST = "others-first"


@dataclass
class Work:
    """One entry of a stream: an operation, or a wait for another stream's mark."""

    run: object
    nbytes: int = 0
    waits_for: tuple[FakeStream, int] | None = None


@dataclass(eq=False)
class FakeStream:
    """A queue of one device. `submitted` and `done` count entries; a mark is a value of `submitted`."""

    gpu: FakeGpu
    device_index: int
    native_handle: int
    queue: deque = field(default_factory=deque)
    submitted: int = 0
    done: int = 0
    waited: dict = field(default_factory=dict)
    clock_s: float = 0.0
    reached_s: dict = field(default_factory=lambda: {0: 0.0})
    _before: list = field(default_factory=list)

    def submit(self, run, nbytes=0, waits_for=None):
        self.gpu.refuse_if_lost()
        self.queue.append(Work(run, nbytes, waits_for))
        self.submitted += 1

    def wait_stream(self, other, /):
        if other is not self:
            self.waited[other] = other.submitted
            self.submit(lambda: None, waits_for=(other, other.submitted))

    def synchronize(self):
        self.gpu.wait(self, self.submitted)

    def __enter__(self):
        self._before.append(self.gpu.current.get(self.device_index))
        self.gpu.current[self.device_index] = self
        return self

    def __exit__(self, *_):
        self.gpu.current[self.device_index] = self._before.pop()

    def advance(self, mark):
        while self.done < mark:
            work = self.queue.popleft()
            if work.waits_for:
                other, other_mark = work.waits_for
                other.advance(other_mark)
                self.clock_s = max(self.clock_s, other.reached_s[other_mark])
            work.run()
            self.done += 1
            self.clock_s += LAUNCH_S + work.nbytes / BYTES_PER_S
            self.reached_s[self.done] = self.clock_s


class FakeEvent:
    """Reached when its stream has run up to its mark."""

    def __init__(self, gpu, enable_timing):
        self._gpu = gpu
        self._timed = enable_timing
        self._at = None

    def record(self, stream):
        self._gpu.refuse_if_lost()
        self._at = (stream, stream.submitted)

    def query(self):
        self._gpu.refuse_if_lost()
        stream, mark = self._at
        return stream.done >= mark

    def synchronize(self):
        self._gpu.wait(*self._at)

    def elapsed_time(self, end):
        if not (self._timed and end._timed and self.query() and end.query()):
            raise RuntimeError("both events must be made with timing and must have been reached")
        (start_stream, start_mark), (end_stream, end_mark) = self._at, end._at
        return 1e3 * (end_stream.reached_s[end_mark] - start_stream.reached_s[start_mark])


class FakeGpu:
    """All streams of all devices, and what happens when somebody waits for one.

    Args:
        order: What runs when there is a choice.
        devices: How many there are.
        lost_error: Raised by everything once `lost` is set.
    """

    def __init__(self, order, devices, lost_error):
        self.order = order
        self.devices = devices
        self.lost_error = lost_error
        self.lost = False
        self.violations = []
        self.streams = [FakeStream(self, index, native_handle=0) for index in range(devices)]
        self.current = dict(enumerate(self.streams))

    def new_stream(self, index):
        self.streams.append(FakeStream(self, index, native_handle=0x1000 + len(self.streams)))
        return self.streams[-1]

    def stream_of_handle(self, handle):
        (stream,) = (stream for stream in self.streams if stream.native_handle == handle)
        return stream

    def refuse_if_lost(self):
        if self.lost:
            raise self.lost_error

    def wait(self, stream, mark):
        self.refuse_if_lost()
        if self.order is Order.OTHERS_FIRST:
            for other in self.streams:
                if other is not stream:
                    other.advance(other.submitted)
        stream.advance(mark)

    def synchronize(self, index):
        self.refuse_if_lost()
        for stream in self.streams:
            if stream.device_index == index:
                self.wait(stream, stream.submitted)

    @property
    def idle(self):
        return not any(stream.queue for stream in self.streams)
