"""Every accelerator engine moves exactly the right bytes, whatever order the fake GPU runs its streams in."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ecbench.core.copy_plan import CopyPlan
from ecbench.core.descriptors import Direction
from ecbench.core.errors import CopyRefusedError, UnavailableError
from ecbench.core.host_memory import HostMemoryKind
from ecbench.engine.copy_engines.cuda_batch import MAX_COPIES_PER_CALL, BatchCall, CudaBatchEngine
from ecbench.engine.copy_engines.per_copy import PerCopyEngine
from ecbench.engine.copy_engines.staged import StagedEngine
from ecbench.engine.copy_engines.triton_kernel import TritonEngine
from ecbench.engine.copy_engines.vllm_op import VllmOpEngine, extra_arguments, find_operator
from ecbench.engine.devices.accelerator_kinds import CUDA, ROCM, XPU
from ecbench.engine.devices.cpu import CpuDevice
from ecbench.transfer.queue import TransferQueue
from tests.conftest import random_plan
from tests.engine.fake_accelerator import fake_device
from tests.engine.fake_streams import Order
from tests.engine.transfers import block_plan, fill_both, make_buffers, submit, transfer

ORDERS = list(Order)
BOTH = list(Direction)


def per_copy(device):
    return PerCopyEngine()


def staged(device):
    return StagedEngine(device)


def at_address(address, count, kind):
    return torch.from_numpy(np.ctypeslib.as_array((kind * count).from_address(address)).view(np.int64))


def cuda_batch(device, calls=None):
    """The engine over a driver function that reads raw arrays when its stream gets to them."""

    def function(*arguments):
        dsts, srcs, sizes, count, attributes, indices, attribute_count, _, handle = arguments
        if calls is not None:
            calls.append(count)
        assert attributes == 4711
        assert attribute_count == 1
        assert not any((ctypes.c_size_t * count).from_address(indices))
        sources, destinations, lengths = (at_address(array, count, ctypes.c_uint64) for array in (srcs, dsts, sizes))
        stream = device.runtime.gpu.stream_of_handle(handle)
        device.runtime.copy_by_address(stream, sources, destinations, lengths)
        return 0

    attributes = SimpleNamespace(getPtr=lambda: 4711)
    return CudaBatchEngine(device, BatchCall(function, attributes, lambda error: f"CUDA_ERROR_{error}"))


def triton(device):
    def launch(sources, destinations, sizes, programs):
        stream = device.runtime.gpu.current[device.index]
        assert {tensor.block.index for tensor in (sources, destinations, sizes)} == {device.index}
        device.runtime.copy_by_address(stream, sources.inner, destinations.inner, sizes.inner)

    return TritonEngine(device, launch)


def operator_with(device, schema="(Tensor src_ptrs, Tensor dst_ptrs, Tensor sizes) -> ()", calls=None):
    """What vLLM registers, with a schema of a platform or version."""

    def operator(sources, destinations, sizes, **extras):
        if calls is not None:
            calls.append((len(sizes), extras))
        stream = device.runtime.gpu.current[device.index]
        device.runtime.copy_by_address(stream, sources, destinations, sizes)

    operator._schema = torch._C.parse_schema(f"_C_cache_ops::swap_blocks_batch{schema}")
    return operator


def vllm_op(device):
    return VllmOpEngine(device, operator_with(device))


ON_CUDA = [per_copy, staged, cuda_batch, triton, vllm_op]
ON_XPU = [per_copy, staged, vllm_op]
ENGINES_ON_KINDS = [(make, CUDA) for make in ON_CUDA] + [(make, XPU) for make in ON_XPU]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("direction", BOTH)
@pytest.mark.parametrize(("make", "kind"), ENGINES_ON_KINDS, ids=lambda value: getattr(value, "name", None))
@pytest.mark.parametrize("contiguous_host", [True, False])
def test_blocks_arrive(make, kind, direction, order, contiguous_host):
    device = fake_device(order, kind=kind)
    plan = block_plan(40, 192, direction, contiguous_host=contiguous_host)
    verdict, done = transfer(device, make(device), plan, direction)
    assert verdict.ok, verdict
    assert done.descriptors == 40
    assert done.copy_s > 0


@pytest.mark.parametrize("make", ON_CUDA)
@given(seed=st.integers(0, 2**32), direction=st.sampled_from(BOTH), order=st.sampled_from(ORDERS))
def test_any_plan_of_whole_words_arrives(make, seed, direction, order):
    device = fake_device(order)
    plan = random_plan(np.random.default_rng(seed))
    verdict, _ = transfer(device, make(device), plan, direction)
    assert verdict.ok, verdict


@pytest.mark.parametrize("make", [per_copy, staged, cuda_batch, vllm_op])
@given(seed=st.integers(0, 2**32), direction=st.sampled_from(BOTH))
def test_any_plan_of_odd_bytes_arrives(make, seed, direction):
    device = fake_device(Order.LATE)
    plan = random_plan(np.random.default_rng(seed), unit=1, most_units=97)
    verdict, _ = transfer(device, make(device), plan, direction)
    assert verdict.ok, verdict


@pytest.mark.parametrize("make", ON_CUDA)
def test_a_single_copy_arrives(make):
    device = fake_device(Order.LATE)
    plan = CopyPlan([8], [16], [4096], 8192, 8192)
    for direction in BOTH:
        assert transfer(device, make(device), plan, direction)[0].ok


@pytest.mark.parametrize("make", [per_copy, staged])
def test_an_address_outside_the_batch_s_tensors_is_refused(make):
    device = fake_device(Order.LATE)
    plan = CopyPlan([0], [0], [64], 64, 64)
    buffers = make_buffers(device, plan, Direction.TO_HOST)
    queue = TransferQueue(device, make(device), Direction.TO_HOST)
    arrays = queue.arrays.acquire(1)
    for view in arrays.views:
        view[0] = 64
    with pytest.raises(CopyRefusedError, match=r"descriptor 0 of 64 bytes points outside"):
        queue.submit("it", arrays, 1, sources=(buffers.on_device,), destinations=(buffers.on_host,), fill_s=0.0)


def test_staged_crosses_the_bus_once_where_the_host_is_contiguous():
    device = fake_device(Order.LATE)
    _, done = transfer(device, staged(device), block_plan(40, 192, Direction.TO_HOST), Direction.TO_HOST)
    assert done.notes == ()
    assert done.threads == 0


@pytest.mark.parametrize(("direction", "does"), [(Direction.TO_HOST, "unpacks"), (Direction.TO_DEVICE, "packs")])
def test_staged_says_where_the_host_takes_part(direction, does):
    device = fake_device(Order.LATE)
    plan = block_plan(40, 192, direction, contiguous_host=False)
    _, done = transfer(device, staged(device), plan, direction)
    assert does in done.notes[0]
    assert "40 pieces" in done.notes[0]
    assert done.threads == torch.get_num_threads()


@pytest.mark.parametrize("direction", BOTH)
def test_staged_without_room_for_its_buffer_is_refused_with_both_numbers(direction):
    plan = block_plan(16, 4096, direction)
    device = fake_device(Order.LATE, capacity_bytes=max(plan.source_bytes, plan.destination_bytes) + 4096)
    buffers = make_buffers(device, plan, direction)
    with pytest.raises(CopyRefusedError, match=r"device cuda:1 has .* free, a buffer of 64.0 KiB does not fit"):
        submit(device, TransferQueue(device, staged(device), direction), plan, buffers, direction)


def test_staged_gathers_several_tensors_in_order():
    device = fake_device(Order.OTHERS_FIRST)
    host = torch.zeros(3 * 256, dtype=torch.uint8)
    registration = device.register_host(host)
    entries = [device.empty(256) for _ in range(3)]
    for value, entry in enumerate(entries, 1):
        entry.fill_(value)
    queue = TransferQueue(device, staged(device), Direction.TO_HOST)
    arrays = queue.arrays.acquire(3)
    for slot, entry in enumerate(reversed(entries)):
        arrays.views[0][slot] = entry.data_ptr()
        arrays.views[1][slot] = host.data_ptr() + 256 * slot
        arrays.views[2][slot] = 256
    queue.submit("it", arrays, 3, sources=tuple(entries), destinations=(host,), fill_s=0.0)
    queue.wait()
    registration.release()
    assert host.view(3, 256).float().mean(dim=1).tolist() == [3, 2, 1]


def test_cuda_batch_goes_in_several_calls_where_one_would_be_too_large():
    calls = []
    device = fake_device(Order.LATE)
    count = 2 * MAX_COPIES_PER_CALL + 5
    plan = block_plan(count, 8, Direction.TO_HOST)
    verdict, done = transfer(device, cuda_batch(device, calls), plan, Direction.TO_HOST)
    assert verdict.ok
    assert done.descriptors == count
    assert calls == [MAX_COPIES_PER_CALL, MAX_COPIES_PER_CALL, 5]


@pytest.mark.parametrize("make", [cuda_batch, vllm_op])
def test_the_legacy_default_stream_is_refused(make):
    device = fake_device(Order.LATE)
    plan = CopyPlan([0], [0], [64], 64, 64)
    buffers = make_buffers(device, plan, Direction.TO_HOST)
    device.new_stream = device.current_stream
    queue = TransferQueue(device, make(device), Direction.TO_HOST)
    with pytest.raises(CopyRefusedError, match="legacy default stream"):
        submit(device, queue, plan, buffers, Direction.TO_HOST)


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (1, CopyRefusedError, "descriptor 3 .*CUDA_ERROR_1"),
        (999, UnavailableError, "cuda:1 failed in cuMemcpyBatchAsync .*CUDA_ERROR_999"),
    ],
)
def test_an_error_of_the_driver_names_the_copy_or_the_device(error, kind, message):
    def function(*arguments):
        arguments[7]._obj.value = 3
        return error

    device = fake_device(Order.LATE)
    call = BatchCall(function, SimpleNamespace(getPtr=lambda: 0), lambda code: f"CUDA_ERROR_{code}")
    plan = block_plan(8, 64, Direction.TO_HOST)
    with pytest.raises(kind, match=message):
        transfer(device, CudaBatchEngine(device, call), plan, Direction.TO_HOST)


def test_triton_refuses_what_is_no_whole_word():
    device = fake_device(Order.LATE)
    for plan in (CopyPlan([0], [0], [12], 16, 16), CopyPlan([4], [0], [8], 16, 16)):
        with pytest.raises(CopyRefusedError, match="whole aligned 8-byte words: use --engine"):
            transfer(device, triton(device), plan, Direction.TO_HOST)


@pytest.mark.parametrize("direction", BOTH)
def test_triton_refuses_host_memory_that_a_kernel_cannot_reach(direction):
    device = fake_device(Order.LATE, host_memory=HostMemoryKind.PAGEABLE)
    with pytest.raises(CopyRefusedError, match=r"not pinned .*: use --pinned"):
        transfer(device, triton(device), block_plan(4, 64, direction), direction)


@pytest.mark.parametrize(
    ("schema", "extras"),
    [
        ("(Tensor src_ptrs, Tensor dst_ptrs, Tensor sizes) -> ()", {}),
        (
            "(Tensor a, Tensor b, Tensor c, bool is_src_access_order_any=False) -> ()",
            {"is_src_access_order_any": False},
        ),
        (
            "(Tensor a, Tensor b, Tensor c, bool is_src_access_order_any, bool use_batch_api=True) -> ()",
            {"is_src_access_order_any": False, "use_batch_api": True},
        ),
        ("(Tensor a, Tensor b, Tensor c, int something_new=3) -> ()", {}),
    ],
)
def test_vllm_s_operator_is_called_as_its_schema_says(schema, extras):
    calls = []
    device = fake_device(Order.LATE)
    engine = VllmOpEngine(device, operator_with(device, schema, calls))
    assert transfer(device, engine, block_plan(4, 64, Direction.TO_HOST), Direction.TO_HOST)[0].ok
    assert calls == [(4, extras)]


@pytest.mark.parametrize(
    "schema", ["(Tensor a, Tensor b, Tensor c, int direction) -> ()", "(Tensor a, Tensor b) -> ()"]
)
def test_an_operator_of_an_unknown_form_is_not_called(schema):
    device = fake_device(Order.LATE)
    with pytest.raises(UnavailableError, match="unknown form"):
        VllmOpEngine(device, operator_with(device, schema))


def test_vllm_s_operator_is_found_once_an_extension_registered_it():
    assert find_operator(load=lambda name: None) is None
    library = torch.library.Library("_C_cache_ops", "FRAGMENT")
    try:
        loaded = []

        def load(name):
            loaded.append(name)
            if name == "vllm._C":
                raise ImportError(name)
            library.define("swap_blocks_batch(Tensor a, Tensor b, Tensor c, bool is_src_access_order_any=False) -> ()")

        operator = find_operator(load)
        assert loaded == ["vllm._C", "vllm._C_stable_libtorch"]
        assert extra_arguments(operator) == {"is_src_access_order_any": False}
    finally:
        library._destroy()


def test_vllm_s_operator_goes_in_several_calls_on_rocm():
    calls = []
    device = fake_device(Order.LATE, kind=ROCM, hip="6.4")
    engine = VllmOpEngine(device, operator_with(device, calls=calls))
    plan = block_plan(ROCM.max_descriptors + 3, 8, Direction.TO_HOST)
    assert transfer(device, engine, plan, Direction.TO_HOST)[0].ok
    assert [count for count, _ in calls] == [ROCM.max_descriptors, 3]


def test_vllm_s_operator_gets_the_platform_s_dtype_or_nothing():
    device = fake_device(Order.LATE, kind=XPU)
    plan = block_plan(4, 64, Direction.TO_HOST)
    buffers = make_buffers(device, plan, Direction.TO_HOST)
    device.pointer_dtype = torch.int64
    queue = TransferQueue(device, vllm_op(device), Direction.TO_HOST)
    fill_both(device, plan, buffers, Direction.TO_HOST)
    with pytest.raises(CopyRefusedError, match=r"takes torch.uint64 arrays, not torch.int64"):
        submit(device, queue, plan, buffers, Direction.TO_HOST)


@pytest.mark.parametrize("make", [StagedEngine, CudaBatchEngine, TritonEngine, VllmOpEngine])
def test_accelerator_engines_want_an_accelerator(make):
    with pytest.raises(Exception, match="runs on accelerators only"):
        make(CpuDevice())
