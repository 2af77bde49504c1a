from __future__ import annotations

import gc
import itertools
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ecbench import EcbenchError
from ecbench.core.copy_plan import CopyPlan
from ecbench.core.errors import CopyRefusedError
from ecbench.encoder_cache import BlockIds
from ecbench.encoder_cache.blocks import coalesced_copies, split_copies
from ecbench.encoder_cache.worker import EncoderCacheWorker, LoadSpec, Rank
from ecbench.engine.devices.cpu import CpuDevice
from ecbench.engine.devices.xpu_sim import XpuSimDevice
from ecbench.engine.registry import open_engine
from ecbench.transfer.descriptor_arrays import DescriptorArrayPool
from ecbench.transfer.shared_region import create_region
from ecbench.transfer.writers import find_writer
from tests.fakes import DeferredEngine, ManualDevice

BLOCK = 16
DTYPE = torch.bfloat16
PAD = 0xEE


FIRST = Rank()


class Bench:
    """A worker over a small region, and encoder outputs with known bytes."""

    def __init__(self, device, *, engine=None, writer="numpy-batch", layout=coalesced_copies, rank=FIRST, blocks=16):
        self.device = device
        self.region = create_region(blocks, BLOCK, guard_bytes=1)
        self.region.whole.fill_(PAD)
        self.worker = EncoderCacheWorker(
            self.region,
            device,
            engine or open_engine("auto", device),
            find_writer(writer),
            layout=layout,
            dtype=DTYPE,
            rank=rank,
        )

    def output(self, nbytes, value):
        tensor = self.device.empty(nbytes)
        self.device.memory(tensor).to_host()[:] = np.arange(nbytes) % 90 + value
        return tensor.view(DTYPE)

    def bytes_of(self, tensor):
        return self.device.memory(tensor.view(-1).view(torch.uint8)).to_host().tobytes()

    def block(self, number):
        return self.region.blocks[number].numpy().tobytes()

    def save(self, **outputs):
        """Saves outputs, given as (tensor, block ids), in one step."""
        self.worker.begin_step({key: BlockIds.of(ids) for key, (_, ids) in outputs.items()})
        for key, (tensor, _) in outputs.items():
            self.worker.save(key, tensor)
        self.worker.flush()

    def load(self, **entries):
        """Loads entries given as (block ids, bytes)."""
        return self.worker.load(
            {key: LoadSpec(BlockIds.of(ids), (nbytes // 2,), DTYPE) for key, (ids, nbytes) in entries.items()}
        )


@pytest.fixture
def bench(device):
    made = Bench(device)
    yield made
    made.worker.shutdown()


@pytest.mark.behaviour(1)
@pytest.mark.parametrize("nbytes", [48, 40])
def test_a_save_lands_in_its_blocks_and_touches_nothing_else(bench, nbytes):
    output = bench.output(nbytes, 1)
    bench.save(a=(output, [2, 3, 7]))
    bench.worker.wait()
    content = bench.bytes_of(output)
    stored = b"".join(bench.block(number) for number in (2, 3, 7))
    assert stored == content + bytes([PAD]) * (48 - nbytes)
    untouched = [bench.block(number) for number in range(16) if number not in {2, 3, 7}]
    assert untouched == [bytes([PAD]) * BLOCK] * 13
    guard = bench.region.guard_bytes
    assert (bench.region.whole[:guard] == PAD).all()
    assert (bench.region.whole[-guard:] == PAD).all()


@pytest.mark.behaviour(3)
def test_an_entry_that_is_not_in_the_step_is_not_saved(bench):
    bench.worker.begin_step({})
    bench.worker.save("a", bench.output(16, 1))
    bench.worker.flush()
    assert bench.worker.wait() == bench.worker.poll()
    assert (bench.region.blocks == PAD).all()


@pytest.mark.behaviour(3)
@pytest.mark.parametrize("rank", [Rank(1, 0), Rank(0, 1), Rank(1, 1)])
def test_only_the_first_rank_saves(cpu, rank):
    bench = Bench(cpu, rank=rank)
    bench.save(a=(bench.output(16, 1), [0]))
    finished = bench.worker.wait()
    assert (finished.saved, finished.abandoned) == ((), ())
    assert (bench.region.blocks == PAD).all()
    bench.worker.shutdown()


@pytest.mark.behaviour(4)
def test_an_oversized_output_is_refused_and_named_with_both_sizes(bench):
    bench.worker.begin_step({"a": BlockIds.of([1, 2])})
    with pytest.raises(EcbenchError, match="output of 34 bytes does not fit its 2 blocks of 16 bytes"):
        bench.worker.save("a", bench.output(34, 1))


@pytest.mark.behaviour(5)
def test_several_entries_go_in_one_flush(bench):
    outputs = {
        "a": (bench.output(32, 1), [4, 5]),
        "b": (bench.output(16, 40), [0]),
        "c": (bench.output(24, 70), [9, 2]),
    }
    bench.save(**outputs)
    finished = bench.worker.wait()
    assert finished.saved == ("a", "b", "c")
    (transfer,) = finished.saves
    assert transfer.descriptors == 4
    assert bench.block(0) == bench.bytes_of(outputs["b"][0])
    assert bench.block(9) + bench.block(2)[:8] == bench.bytes_of(outputs["c"][0])


@pytest.mark.behaviour(6)
def test_addresses_at_the_top_are_kept_exactly_over_two_runs():
    arrays = DescriptorArrayPool(torch.uint64).acquire(2)
    plan = CopyPlan([0, 64], [0, 1024], [64, 64], 128, 2048)
    find_writer("numpy-batch").write(arrays, 0, plan, 2**64 - 128, 2**63)
    assert arrays.tensors[0][:2].tolist() == [2**64 - 128, 2**64 - 64]
    assert arrays.tensors[1][:2].tolist() == [2**63, 2**63 + 1024]


@pytest.mark.behaviour(7)
def test_a_load_restores_shape_dtype_bytes_and_device(bench):
    output = bench.output(48, 3)
    bench.save(a=(output, [5, 6, 1]))
    views = bench.worker.load({"a": LoadSpec(BlockIds.of([5, 6, 1]), (3, 8), DTYPE)})
    bench.worker.wait()
    assert views["a"].shape == (3, 8)
    assert views["a"].dtype is DTYPE
    assert views["a"].device == output.device
    assert (views["a"].data_ptr() >= 2**63) is isinstance(bench.device, XpuSimDevice)
    assert bench.bytes_of(views["a"]) == bench.bytes_of(output)


@pytest.mark.behaviour(8)
@pytest.mark.parametrize("order", list(itertools.permutations(["a", "b", "c"])))
def test_loads_of_neighbours_share_a_descriptor_whatever_their_order(cpu, order):
    bench = Bench(cpu)
    blocks = {"a": [2, 3], "b": [4], "c": [5, 6]}
    outputs = {key: bench.output(len(ids) * BLOCK, 10 * len(ids)) for key, ids in blocks.items()}
    bench.save(**{key: (outputs[key], ids) for key, ids in blocks.items()})
    views = bench.load(**{key: (blocks[key], len(blocks[key]) * BLOCK) for key in order})
    (transfer,) = bench.worker.wait().loads
    assert transfer.descriptors == 1
    for key, view in views.items():
        assert bench.bytes_of(view) == bench.bytes_of(outputs[key])
    bench.worker.shutdown()


@pytest.mark.behaviour(8)
def test_a_gap_splits_the_load(bench):
    bench.load(a=([2, 3], 32), b=([5], 16))
    (transfer,) = bench.worker.wait().loads
    assert transfer.descriptors == 2


@pytest.mark.behaviour(9)
def test_no_loads_is_a_no_op(bench):
    assert bench.worker.load({}) == {}
    assert bench.worker.wait().loads == ()


@pytest.mark.behaviour(10)
def test_an_entry_that_is_on_the_device_is_loaded_again(bench):
    first = bench.load(a=([1], 16))["a"]
    bench.region.blocks[1].fill_(5)
    second = bench.load(a=([1], 16))["a"]
    bench.worker.wait()
    assert bench.bytes_of(first) == bytes([PAD]) * 16
    assert bench.bytes_of(second) == bytes([5]) * 16


@pytest.mark.behaviour(11)
def test_every_rank_loads(cpu):
    for rank in (Rank(0, 0), Rank(1, 0), Rank(0, 1)):
        bench = Bench(cpu, rank=rank)
        view = bench.load(a=([3], 16))["a"]
        assert bench.worker.wait().loaded == ("a",)
        assert bench.bytes_of(view) == bytes([PAD]) * 16
        bench.worker.shutdown()


@pytest.mark.behaviour(12)
@pytest.mark.parametrize("engine", ["memmove", "gather", "per-copy"])
@pytest.mark.parametrize("layout", [coalesced_copies, split_copies])
def test_a_round_trip_is_byte_equal(device, engine, layout):
    bench = Bench(device, engine=open_engine(engine, device), layout=layout)
    outputs = {"a": (bench.output(80, 1), [9, 3, 4, 5, 0]), "b": (bench.output(22, 60), [7, 8])}
    bench.save(**outputs)
    bench.worker.wait()
    views = bench.load(a=(outputs["a"][1], 80), b=(outputs["b"][1], 22))
    bench.worker.wait()
    for key, view in views.items():
        assert bench.bytes_of(view) == bench.bytes_of(outputs[key][0])
    bench.worker.shutdown()


@pytest.mark.behaviour(13)
def test_the_source_of_a_save_may_be_dropped_before_the_copy_ran():
    device = ManualDevice()
    bench = Bench(device, engine=DeferredEngine())
    output = bench.output(32, 1)
    content, alive = bench.bytes_of(output), weakref.ref(output)
    bench.save(a=(output, [4, 5]))
    del output
    gc.collect()
    assert alive() is not None
    scribble = bench.output(32, 77)
    device.run_all()
    assert bench.worker.poll().saved == ("a",)
    assert bench.block(4) + bench.block(5) == content
    assert bench.bytes_of(scribble) != content
    bench.worker.shutdown()


@pytest.mark.behaviour(14)
def test_the_buffer_of_a_load_survives_while_a_read_is_queued():
    device = ManualDevice()
    bench = Bench(device, engine=DeferredEngine())
    bench.region.blocks[2].fill_(8)
    view = bench.load(a=([2], 16))["a"]
    address = view.data_ptr()
    del view
    gc.collect()
    assert device.empty(16).data_ptr() != address
    device.run_all()
    bench.worker.poll()
    gc.collect()
    assert device.empty(16).data_ptr() == address
    bench.worker.shutdown()


def test_the_compute_stream_waits_for_loads():
    device = ManualDevice()
    bench = Bench(device, engine=DeferredEngine())
    bench.load(a=([2], 16))
    assert device.compute.waited_for == device.streams
    bench.worker.shutdown()


@pytest.mark.behaviour(16)
@pytest.mark.parametrize("kind", [CpuDevice, XpuSimDevice])
def test_host_memory_is_not_pinned_where_nothing_pins(kind):
    assert kind().pinning.startswith("none")


@pytest.mark.behaviour(17)
def test_shutdown_cleans_the_region_and_may_run_twice(bench):
    bench.save(a=(bench.output(16, 1), [0]))
    bench.worker.shutdown()
    bench.worker.shutdown()
    with pytest.raises(EcbenchError, match="after its close"):
        _ = bench.region.blocks


@pytest.mark.behaviour(17)
def test_shutdown_cleans_the_region_also_where_waiting_fails(cpu, monkeypatch):
    bench = Bench(cpu)
    monkeypatch.setattr(bench.worker._saves, "wait", lambda: (_ for _ in ()).throw(RuntimeError("device lost")))
    with pytest.raises(RuntimeError, match="device lost"):
        bench.worker.shutdown()
    with pytest.raises(EcbenchError, match="after its close"):
        _ = bench.region.blocks


def test_a_zero_length_save_completes_and_the_next_save_works(bench):
    bench.save(empty=(bench.output(0, 0), []))
    assert bench.worker.poll().saved == ("empty",)
    output = bench.output(16, 1)
    bench.save(empty=(bench.output(0, 0), []), a=(output, [3]))
    assert sorted(bench.worker.wait().saved) == ["a", "empty"]
    assert bench.block(3) == bench.bytes_of(output)


def test_a_zero_length_load_gives_an_empty_tensor(bench):
    views = bench.worker.load({"empty": LoadSpec(BlockIds.of([]), (0, 8), DTYPE)})
    assert views["empty"].shape == (0, 8)
    assert bench.worker.poll().loaded == ("empty",)


def test_a_zero_length_load_rides_along_with_others(bench):
    bench.region.blocks[3].fill_(4)
    views = bench.load(empty=([], 0), a=([3], 16))
    assert sorted(bench.worker.wait().loaded) == ["a", "empty"]
    assert views["empty"].numel() == 0
    assert bench.bytes_of(views["a"]) == bytes([4]) * 16


def test_an_announced_save_that_never_comes_is_given_up(bench):
    bench.worker.begin_step({"a": BlockIds.of([1]), "never": BlockIds.of([2])})
    bench.worker.save("a", bench.output(16, 1))
    bench.worker.flush()
    finished = bench.worker.wait()
    assert (finished.saved, finished.abandoned) == (("a",), ("never",))


def test_a_step_that_was_never_flushed_is_given_up_with_all_it_held(bench):
    bench.worker.begin_step({"a": BlockIds.of([1])})
    bench.worker.save("a", bench.output(16, 1))
    bench.worker.begin_step({})
    assert bench.worker.poll().abandoned == ("a",)
    assert (bench.region.blocks == PAD).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_an_output_of_another_dtype_is_refused_in_both_directions(bench, dtype):
    bench.worker.begin_step({"a": BlockIds.of([1])})
    with pytest.raises(EcbenchError, match=f"{dtype}.*{DTYPE}.*cast"):
        bench.worker.save("a", bench.device.empty(16).view(dtype))
    with pytest.raises(EcbenchError, match=f"{dtype}.*{DTYPE}"):
        bench.worker.load({"a": LoadSpec(BlockIds.of([1]), (4,), dtype)})


def test_a_non_contiguous_output_is_refused_with_its_strides(bench):
    bench.worker.begin_step({"a": BlockIds.of([1])})
    with pytest.raises(EcbenchError, match=r"strides \(8, 2\): call \.contiguous\(\)"):
        bench.worker.save("a", bench.output(32, 1).view(2, 8)[:, ::2])


def test_a_load_of_a_shape_larger_than_its_blocks_is_refused(bench):
    with pytest.raises(EcbenchError, match=r"\(9,\) is 18 bytes but its 1 blocks hold 16"):
        bench.load(a=([1], 18))


def test_a_writer_that_this_torch_refuses_leaves_nothing_behind():
    bench = Bench(XpuSimDevice(), writer=_refused_writer())
    bench.worker.begin_step({"a": BlockIds.of([1])})
    with pytest.raises(CopyRefusedError, match="numpy-batch"):
        bench.worker.save("a", bench.output(16, 1))
    with pytest.raises(CopyRefusedError, match="numpy-batch"):
        bench.load(a=([1], 16))
    bench.worker.begin_step({})
    assert bench.worker.wait().abandoned == ("a",)
    bench.worker.shutdown()


def _refused_writer():
    """Up to torch 2.13 raw addresses are refused in a uint64 array, from 2.14 on their two's complement."""
    try:
        torch.zeros(1, dtype=torch.uint64)[0] = 2**63
    except ValueError:
        return "setitem"
    return "setitem-twos"


@given(
    sizes=st.lists(st.integers(0, 5), min_size=1, max_size=6),
    cuts=st.sets(st.integers(0, 5)),
    kind=st.sampled_from([CpuDevice, XpuSimDevice]),
    layout=st.sampled_from([coalesced_copies, split_copies]),
    seed=st.integers(0, 2**16),
)
def test_saves_and_loads_in_any_mix_give_the_same_bytes(sizes, cuts, kind, layout, seed):
    """One at a time, all in one flush, or anything between: invariant under batching."""
    bench = Bench(kind(), layout=layout, blocks=32)
    order = np.random.default_rng(seed).permutation(32).tolist()
    entries = {}
    for number, size in enumerate(sizes):
        ids = sorted(order.pop() for _ in range(size))
        entries[f"e{number}"] = (bench.output(size * BLOCK, 10 * number), ids)
    for batch in _split(list(entries), cuts):
        bench.save(**{key: entries[key] for key in batch})
    bench.worker.wait()
    for batch in _split(list(entries)[::-1], cuts):
        views = bench.load(**{key: (entries[key][1], len(entries[key][1]) * BLOCK) for key in batch})
        bench.worker.wait()
        for key, view in views.items():
            assert bench.bytes_of(view) == bench.bytes_of(entries[key][0])
    used = {block for _, ids in entries.values() for block in ids}
    assert all(bench.block(number) == bytes([PAD]) * BLOCK for number in range(32) if number not in used)
    bench.worker.shutdown()


def _split(keys, cuts):
    edges = [0, *sorted(cut for cut in cuts if 0 < cut < len(keys)), len(keys)]
    return [keys[start:end] for start, end in itertools.pairwise(edges)]
