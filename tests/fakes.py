"""A device whose copies happen when the test says so, to see who keeps what alive and for how long."""

from __future__ import annotations

import torch

from ecbench.core.descriptors import PreparedCopy
from ecbench.engine.copy_engines.host import MemmoveEngine
from ecbench.engine.devices.cpu import CpuDevice


class ManualStream:
    """Runs its work when told to."""

    def __init__(self):
        self.work = []
        self.waited_for = []

    def wait_stream(self, other, /):
        self.waited_for.append(other)

    def run(self):
        while self.work:
            self.work.pop(0)()

    synchronize = run


class ManualEvent:
    def __init__(self):
        self.stream = None
        self.reached = False

    def record(self, stream, /):
        self.stream, self.reached = stream, False
        stream.work.append(self._reach)

    def _reach(self):
        self.reached = True

    def query(self):
        return self.reached

    def synchronize(self):
        self.stream.run()

    def seconds_until(self, end, /):
        assert self.reached
        assert end.reached
        return 1.0


class ManualDevice(CpuDevice):
    """Host memory, with streams that do nothing until they are run."""

    copies_inside_submit = False

    def __init__(self):
        super().__init__()
        self.compute = ManualStream()
        self.streams = []
        self.recorded = []

    def current_stream(self):
        return self.compute

    def new_stream(self):
        self.streams.append(ManualStream())
        return self.streams[-1]

    def new_event(self):
        return ManualEvent()

    def record_stream(self, tensor, stream):
        self.recorded.append((tensor.data_ptr(), stream))

    def run_all(self):
        for stream in self.streams:
            stream.run()


class DeferredEngine:
    """Reads its descriptors only when the stream runs, as a device would."""

    name = "deferred"

    def prepare(self, batch):
        def run(stream):
            stream.work.append(lambda: MemmoveEngine().prepare(batch).run(stream))

        return PreparedCopy(self.name, threads=0, run=run)


class BrokenEngine:
    """Fails halfway through a copy."""

    name = "broken"

    def prepare(self, batch):
        def run(stream):
            raise RuntimeError("the driver fell over")

        return PreparedCopy(self.name, threads=0, run=run)


def filled(device, nbytes, value):
    tensor = device.empty(nbytes)
    device.memory(tensor).to_host()[:] = value
    return tensor


DTYPES = [torch.int64, torch.uint64]
