from __future__ import annotations

import errno
import gc
import mmap
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from ecbench import EcbenchError
from ecbench.core.errors import DoesNotFitError
from ecbench.transfer import shared_region as module
from ecbench.transfer.shared_region import RegionHandle, attach_region, create_region


@pytest.fixture
def region():
    made = create_region(4, 1000, guard_bytes=1)
    yield made
    made.close()


def _shm_names():
    return set(os.listdir("/dev/shm"))


def test_blocks_lie_between_guards_and_on_a_page(region):
    assert region.blocks.shape == (4, 1000)
    assert region.blocks.dtype is torch.uint8
    assert region.guard_bytes == mmap.PAGESIZE
    assert region.whole.nbytes == 4000 + 2 * mmap.PAGESIZE
    assert region.blocks.data_ptr() % mmap.PAGESIZE == 0


@pytest.mark.behaviour(28)
def test_a_second_opener_shares_bytes(region):
    other = attach_region(region.handle)
    region.blocks[2, 5] = 7
    assert other.blocks[2, 5] == 7
    other.blocks[3, 9] = 8
    assert region.blocks[3, 9] == 8
    other.close()


@pytest.mark.behaviour(28)
def test_another_process_shares_bytes(region):
    code = (
        "import sys; from ecbench.transfer.shared_region import *; "
        "r = attach_region(RegionHandle(*map(int, sys.argv[1:]))); r.blocks[1, 2] = 99; r.close()"
    )
    handle = region.handle
    values = [handle.pid, handle.fd, handle.inode, handle.num_blocks, handle.block_size_bytes, handle.guard_bytes]
    subprocess.run([sys.executable, "-c", code, *map(str, values)], check=True)
    assert region.blocks[1, 2] == 99


@pytest.mark.behaviour(29)
def test_an_attached_rank_that_closes_takes_nothing_from_the_creator(region):
    region.blocks[0, 0] = 5
    attach_region(region.handle).close()
    gc.collect()
    assert region.blocks[0, 0] == 5
    assert attach_region(region.handle).blocks[0, 0] == 5


def test_the_region_has_no_name(region):
    assert not any(str(os.fstat(region.handle.fd).st_ino) in name or "ecbench" in name for name in _shm_names())
    assert os.fstat(region.handle.fd).st_nlink == 0


def test_memory_is_given_back_with_the_last_holder():
    before = module.shm_free_bytes()
    made = create_region(64, 1 << 20)
    assert module.shm_free_bytes() <= before - (60 << 20)
    made.close()
    del made
    gc.collect()
    assert module.shm_free_bytes() > before - (30 << 20)


@pytest.mark.behaviour(30)
def test_an_opener_waits_for_the_size_and_gives_up_in_the_end(region, monkeypatch):
    sizes = iter([0, 10, region.whole.nbytes])
    slept = []
    real = os.fstat(region.handle.fd)
    monkeypatch.setattr(module.os, "fstat", lambda _: SimpleNamespace(st_size=next(sizes), st_ino=real.st_ino))
    monkeypatch.setattr(module.time, "sleep", slept.append)
    module._wait_for_size(0, region.whole.nbytes, timeout_s=1.0)
    assert len(slept) == 2
    monkeypatch.setattr(module.os, "fstat", lambda _: SimpleNamespace(st_size=10, st_ino=real.st_ino))
    with pytest.raises(EcbenchError, match=r"10 of \d+ bytes after 0 s"):
        module._wait_for_size(0, region.whole.nbytes, timeout_s=0.0)


@pytest.mark.behaviour(31)
def test_the_prefault_fallback_keeps_bytes_and_touches_every_page():
    mapping = mmap.mmap(-1, 3 * mmap.PAGESIZE)
    mapping[mmap.PAGESIZE] = 9
    content = bytes(mapping)
    module._touch_pages(mapping)
    assert bytes(mapping) == content
    resident = _resident_pages(mapping)
    assert resident == 3


def _resident_pages(mapping):
    import ctypes

    size = len(mapping)
    vector = (ctypes.c_ubyte * (size // mmap.PAGESIZE))()
    address = np.frombuffer(mapping, dtype=np.uint8).ctypes.data
    assert ctypes.CDLL(None).mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), vector) == 0
    return sum(page & 1 for page in vector)


@pytest.mark.behaviour(31)
def test_a_kernel_without_the_prefault_advice_gets_the_fallback(monkeypatch):
    touched = []

    class OldKernel:
        def madvise(self, advice):
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(module, "_touch_pages", touched.append)
    mapping = OldKernel()
    module._prefault(mapping)
    assert touched == [mapping]


@pytest.mark.behaviour(32)
def test_cleanup_may_run_twice(region):
    region.close()
    region.close()
    for use in (lambda: region.whole, lambda: region.blocks, lambda: region.handle):
        with pytest.raises(EcbenchError, match="after its close"):
            use()


def test_a_region_that_is_lost_gives_its_descriptor_back():
    before = len(os.listdir("/proc/self/fd"))
    lost = create_region(4, 1000)
    assert len(os.listdir("/proc/self/fd")) > before
    del lost
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_tensor_that_outlives_the_region_stays_readable(region):
    region.blocks[0, 0] = 3
    kept = region.blocks
    region.close()
    gc.collect()
    assert kept[0, 0] == 3


@pytest.mark.parametrize(("blocks", "size"), [(0, 8), (-1, 8), (8, 0), (8, -8)])
def test_a_region_without_a_block_or_a_byte_is_refused(blocks, size):
    with pytest.raises(EcbenchError, match="at least one block of at least one byte"):
        create_region(blocks, size)


def test_a_region_larger_than_shm_is_refused_with_both_numbers_and_leaves_nothing():
    names, descriptors = _shm_names(), len(os.listdir("/proc/self/fd"))
    with pytest.raises(DoesNotFitError, match=r"needs 4.00 PiB of /dev/shm, which has .* free"):
        create_region(1 << 40, 4096)
    assert _shm_names() == names
    assert len(os.listdir("/proc/self/fd")) == descriptors


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.ENOMEM])
def test_pages_that_run_out_while_they_are_reserved_are_an_error_and_no_crash(monkeypatch, code):
    def refuse(fd, offset, length):
        raise OSError(code, os.strerror(code))

    descriptors = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(module.os, "posix_fallocate", refuse)
    with pytest.raises(DoesNotFitError, match="could not get it"):
        create_region(4, 4096)
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_a_host_without_unnamed_files_is_told_so(monkeypatch):
    def refuse(*_):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(module.os, "open", refuse)
    with pytest.raises(EcbenchError, match="cannot hold an unnamed file"):
        create_region(4, 4096)


def test_a_creator_that_is_gone_is_named(region):
    gone = RegionHandle(2**22 - 1, 3, 1, 4, 1000, 4096)
    with pytest.raises(EcbenchError, match=f"process {gone.pid} cannot be opened"):
        attach_region(gone)


def test_a_descriptor_that_now_means_another_file_is_noticed(region):
    handle = region.handle
    wrong = RegionHandle(handle.pid, handle.fd, handle.inode + 1, 4, 1000, 4096)
    with pytest.raises(EcbenchError, match="no longer the shared region"):
        attach_region(wrong)


def test_a_part_is_the_first_bytes_as_blocks_of_another_size_and_closing_it_frees_nothing():
    region = create_region(4, 8192, 4096)
    part = region.part(3, 1000)
    part.blocks[2] = 7
    assert (part.num_blocks, part.block_size_bytes, part.whole.nbytes) == (3, 1000, 3000 + 2 * 4096)
    assert bool((region.whole[4096 + 2000 : 4096 + 3000] == 7).all())
    part.close()
    part.close()
    with pytest.raises(EcbenchError, match="after its close"):
        part.blocks  # noqa: B018 - the access is what is tested
    assert int(region.blocks[0, 2999]) == 7
    with pytest.raises(EcbenchError, match="part of 49152 bytes of a region of 40960"):
        region.part(5, 8192)
    region.close()
