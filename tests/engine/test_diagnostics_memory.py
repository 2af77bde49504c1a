from __future__ import annotations

import errno

import pytest

from ecbench.core.doctor_records import CheckStatus
from ecbench.core.probe_records import ConventionRuling, ProbeCase, Ruling, Unexpected
from ecbench.engine.diagnostics.devices import Gpu
from ecbench.engine.diagnostics.files import parse_id_list
from ecbench.engine.diagnostics.memory import (
    check_huge_pages,
    check_memlock,
    check_populate_write,
    check_registration,
    read_total_bytes,
)
from ecbench.engine.diagnostics.numa import NumaFacts, check_numa, read_numa
from ecbench.engine.diagnostics.pinned import check_pinned
from ecbench.engine.diagnostics.pointer_ruling import check_pointers
from ecbench.engine.diagnostics.torch_build import CUDA, ROCM, XPU
from tests.engine.fake_machine import write

GIB = 1 << 30
NO_CAPABILITIES = "Name:\tpython\nCapEff:\t0000000000000000\n"
WITH_IPC_LOCK = "Name:\tpython\nCapEff:\t0000000000004000\n"


def test_pinning_is_not_tried_where_there_is_nothing_to_pin_for():
    def must_not_run():
        raise AssertionError

    check = check_pinned(None, must_not_run)

    assert check.status is CheckStatus.OK
    assert check.detail.startswith("not tried")


def test_pinning_that_works_is_ok():
    assert check_pinned(CUDA, lambda: True).detail == "works on CUDA"


def test_pinning_that_silently_does_nothing_is_a_problem():
    assert check_pinned(XPU, lambda: False).status is CheckStatus.PROBLEM


def test_pinning_that_is_refused_is_a_problem_in_the_drivers_words():
    def refuse():
        raise RuntimeError("CUDA error:\nout of memory")

    check = check_pinned(CUDA, refuse)

    assert check.status is CheckStatus.PROBLEM
    assert check.detail == "refused by CUDA: CUDA error: out of memory"
    assert "ulimit -l" in (check.mend or "")


def test_host_memory_is_read_in_bytes(tmp_path):
    write(tmp_path, "meminfo", "MemTotal:       24684092 kB\nMemFree: 1 kB\n")

    assert read_total_bytes(tmp_path) == 24684092 * 1024


def test_host_memory_that_is_not_stated_is_unknown(tmp_path):
    assert read_total_bytes(tmp_path) is None
    assert check_registration(None, CUDA).status is CheckStatus.OK


@pytest.mark.parametrize(
    ("total_bytes", "kind", "status"),
    [
        (512 * GIB - 1, CUDA, CheckStatus.OK),
        (512 * GIB, CUDA, CheckStatus.WARNING),
        (128 * 10**9 - 1, ROCM, CheckStatus.OK),
        (128 * 10**9, ROCM, CheckStatus.WARNING),
        (2048 * GIB, XPU, CheckStatus.OK),
        (2048 * GIB, None, CheckStatus.OK),
    ],
)
def test_hosts_so_large_that_registration_is_known_to_fail_are_a_warning(total_bytes, kind, status):
    check = check_registration(total_bytes, kind)

    assert check.status is status
    assert (check.mend is not None) == (status is CheckStatus.WARNING)


def test_an_unlimited_locked_memory_is_ok(tmp_path):
    assert check_memlock(None, tmp_path, CUDA).detail == "not limited"


@pytest.mark.parametrize(
    ("status_file", "kind", "status"),
    [
        (NO_CAPABILITIES, CUDA, CheckStatus.WARNING),
        (NO_CAPABILITIES, None, CheckStatus.OK),
        (WITH_IPC_LOCK, CUDA, CheckStatus.OK),
    ],
)
def test_a_locked_memory_limit_matters_beside_an_accelerator_and_without_the_capability(
    tmp_path, status_file, kind, status
):
    write(tmp_path, "self/status", status_file)

    check = check_memlock(8 << 20, tmp_path, kind)

    assert check.status is status
    assert check.detail.startswith("8.00 MiB")


def test_populate_write_is_really_tried_on_this_kernel():
    assert check_populate_write().status in {CheckStatus.OK, CheckStatus.WARNING}


def test_a_kernel_without_populate_write_is_a_warning():
    def refuse():
        raise OSError(errno.EINVAL, "Invalid argument")

    check = check_populate_write(refuse)

    assert check.status is CheckStatus.WARNING
    assert "Invalid argument" in check.detail
    assert "5.14" in (check.mend or "")


def test_huge_page_modes_are_named(tmp_path):
    write(tmp_path, "kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    write(tmp_path, "kernel/mm/transparent_hugepage/shmem_enabled", "always within_size advise [never] deny force\n")

    assert check_huge_pages(tmp_path).detail == "madvise; for shared memory never"


def test_a_kernel_without_huge_pages_is_ok(tmp_path):
    assert check_huge_pages(tmp_path).detail == "not part of this kernel"


def make_two_nodes(root, cores):
    write(root, "sys/devices/system/node/has_memory", "0-1\n")
    write(root, "sys/devices/system/node/node0/cpulist", "0-3,8-11\n")
    write(root, "sys/devices/system/node/node1/cpulist", "4-7,12-15\n")
    write(root, "proc/self/status", f"Cpus_allowed:\tff\nCpus_allowed_list:\t{cores}\n")
    return read_numa(root / "sys", root / "proc")


def test_the_nodes_of_a_process_follow_from_its_cores(tmp_path):
    assert make_two_nodes(tmp_path, "2,8-9") == NumaFacts(nodes=(0, 1), cpu_nodes=(0,))


def test_one_node_needs_no_pinning():
    assert check_numa(NumaFacts((0,), (0,)), ()).detail == "one node"


def test_a_process_that_runs_on_several_nodes_is_told_where_the_gpu_is(tmp_path):
    check = check_numa(make_two_nodes(tmp_path, "0-15"), (Gpu("NVIDIA", "a", 1),))

    assert check.status is CheckStatus.WARNING
    assert check.detail == "2 nodes, GPUs on node 1; this process runs on nodes 0, 1"
    assert check.mend == "numactl --cpunodebind=1 --membind=1 ecbench ..."


def test_a_process_pinned_beside_its_gpu_is_ok(tmp_path):
    check = check_numa(make_two_nodes(tmp_path, "4-7"), (Gpu("NVIDIA", "a", 1),))

    assert check.status is CheckStatus.OK
    assert "pinned to the cores of node 1" in check.detail


def test_a_process_pinned_away_from_every_gpu_is_a_warning(tmp_path):
    check = check_numa(make_two_nodes(tmp_path, "0-3"), (Gpu("NVIDIA", "a", 1),))

    assert check.status is CheckStatus.WARNING
    assert "away from every GPU" in check.detail


@pytest.mark.parametrize(
    ("text", "numbers"), [("0", (0,)), ("0-2,5", (0, 1, 2, 5)), ("", ()), ("\n", ()), ("7-7", (7,)), ("x", ())]
)
def test_kernel_lists_of_numbers(text, numbers):
    assert parse_id_list(text) == numbers


def probe_case(**changes):
    ruled = ConventionRuling(
        name="numpy-view-uint64", ruling=Ruling.SAFE, exception=None, ns_per_element=50.0, expected=Ruling.SAFE
    )
    case = {"recommended": "numpy-view-uint64", "advice": "Use numpy-view-uint64: view[i] = address."}
    return ProbeCase(**{"case_id": "here", "params": {}, "conventions": [ruled], **case, **changes})


def test_the_pointer_ruling_is_the_probes_advice():
    check = check_pointers(probe_case())

    assert (check.status, check.detail) == (CheckStatus.OK, "Use numpy-view-uint64: view[i] = address.")
    assert check.values == {"numpy-view-uint64": "safe"}


def test_a_torch_that_behaves_as_none_before_is_a_warning():
    surprise = Unexpected(name="uint64-setitem-raw", expected="fails ValueError", found="corrupts")

    check = check_pointers(probe_case(unexpected=[surprise]))

    assert check.status is CheckStatus.WARNING
    assert "uint64-setitem-raw: corrupts instead of fails ValueError" in check.detail


def test_a_torch_without_a_safe_way_is_a_problem():
    assert check_pointers(probe_case(recommended=None, advice="No convention is safe.")).status is CheckStatus.PROBLEM


def test_a_probe_that_broke_is_a_problem_with_its_reason():
    check = check_pointers(probe_case(reason="CUDA error: device is lost"))

    assert check.status is CheckStatus.PROBLEM
    assert "device is lost" in check.detail
