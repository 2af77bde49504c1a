from __future__ import annotations

import pytest

from ecbench.engine.host_facts import host_cpu_name, last_level_cache_bytes


@pytest.mark.parametrize(
    ("sizes", "expected"), [(["32K", "512K", "32768K"], 32 << 20), (["1M", "2G"], 2 << 30), (["odd"], None), ([], None)]
)
def test_the_last_level_cache_is_the_largest_that_the_kernel_names(tmp_path, sizes, expected):
    for index, size in enumerate(sizes):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(f"{size}\n")
    assert last_level_cache_bytes(tmp_path) == expected


def test_the_processor_has_its_product_name(tmp_path):
    (tmp_path / "cpuinfo").write_text("processor : 0\nmodel name\t: Example CPU 9000\nflags : x\nmodel name\t: other\n")
    assert host_cpu_name(tmp_path / "cpuinfo") == "Example CPU 9000"


def test_a_host_that_does_not_tell_still_has_a_name(tmp_path):
    assert host_cpu_name(tmp_path / "missing")
    (tmp_path / "cpuinfo").write_text("CPU implementer : 0x41\n")
    assert host_cpu_name(tmp_path / "cpuinfo")
