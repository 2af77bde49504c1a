from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from ecbench.core.doctor_records import CheckStatus
from ecbench.engine.diagnostics.shared_memory import (
    CONTAINER_DEFAULT_BYTES,
    SMALL_FREE_BYTES,
    check_room,
    check_unnamed_file,
    read_room,
)
from ecbench.engine.diagnostics.stale_files import (
    SHOWN,
    Holders,
    check_stale_files,
    find_holders,
    find_vllm_files,
)
from ecbench.transfer.shared_region import SHM_DIRECTORY
from tests.engine.fake_machine import write

HOST_NAMESPACE = "pid:[4026531836]"
CONTAINER_NAMESPACE = "pid:[4026532200]"


@pytest.fixture
def shm(tmp_path):
    folder = tmp_path / "shm"
    folder.mkdir()
    return folder


@pytest.fixture
def proc(tmp_path):
    folder = tmp_path / "proc"
    make_process(folder, 1)
    set_namespace(folder, HOST_NAMESPACE)
    return folder


def make_process(proc, pid, maps="", opened=()):
    write(proc, f"{pid}/maps", maps)
    (proc / f"{pid}/fd").mkdir()
    for number, path in enumerate(opened):
        (proc / f"{pid}/fd/{number}").symlink_to(path)


def set_namespace(proc, name):
    (proc / "self/ns").mkdir(parents=True)
    (proc / "self/ns/pid").symlink_to(name)


def maps_line(path):
    stat = path.stat()
    device = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}"
    return f"7f00a0000000-7f00a0001000 rw-s 00000000 {device} {stat.st_ino}  {path} (deleted or not)\n"


def judge(shm, proc):
    files = find_vllm_files(shm)
    return check_stale_files(files, find_holders(files, proc))


@pytest.mark.parametrize(
    ("room", "status"),
    [
        ((16 << 30, SMALL_FREE_BYTES), CheckStatus.OK),
        ((16 << 30, SMALL_FREE_BYTES - 1), CheckStatus.WARNING),
        ((CONTAINER_DEFAULT_BYTES, CONTAINER_DEFAULT_BYTES), CheckStatus.WARNING),
        (None, CheckStatus.PROBLEM),
    ],
)
def test_room_in_shared_memory(room, status):
    check = check_room(SHM_DIRECTORY, room)

    assert check.status is status
    assert (check.mend is not None) == (status is not CheckStatus.OK)


def test_a_containers_default_is_named_as_such():
    check = check_room(SHM_DIRECTORY, (64 << 20, 60 << 20))

    assert check.detail.startswith("64.0 MiB, 4.00 MiB used, 60.0 MiB free: a container's default")
    assert "--shm-size" in (check.mend or "")


def test_room_is_read_from_the_file_system(tmp_path):
    room = read_room(tmp_path)

    assert room is not None
    assert room[0] >= room[1] > 0
    assert read_room(tmp_path / "missing") is None


def test_an_unnamed_file_leaves_nothing_behind():
    with tempfile.TemporaryDirectory(dir=SHM_DIRECTORY) as folder:
        check = check_unnamed_file(Path(folder))

        assert check.status is CheckStatus.OK
        assert list(Path(folder).iterdir()) == []


def test_a_folder_that_cannot_hold_an_unnamed_file_is_a_problem(tmp_path):
    check = check_unnamed_file(tmp_path / "missing")

    assert check.status is CheckStatus.PROBLEM
    assert "No such file or directory" in check.detail


@pytest.mark.parametrize(
    "name",
    [
        "vllm_ec_0f3c.mmap",
        "vllm_offload_0f3c_dp0.mmap",
        "vllm_offload_0f3c.mmap.3",
        "vllm_engram_a1b2c3_9",
        "vllm_mm_AAAAAAAAAAAAAAAAAAAA_-",
        "VLLM_OBJECT_STORAGE_SHM_BUFFER_1f",
        "e3b0-tp:0-[0-1-2-3]-cpushm",
    ],
)
def test_names_that_vllm_gives(shm, name):
    (shm / name).touch()

    assert [file.path.name for file in find_vllm_files(shm)] == [name]


@pytest.mark.parametrize(
    "name", ["psm_1a2b3c4d", "vllm_ec_0f3c.mmap.bak", "my_vllm_ec_x.mmap", "vllm_ec_.mmap", "sem.mp-x", "vllm_mm_short"]
)
def test_names_that_others_give(shm, name):
    (shm / name).touch()

    assert find_vllm_files(shm) == []


def test_links_and_folders_are_not_followed(shm, tmp_path):
    write(tmp_path, "elsewhere", "x" * 5000)
    (shm / "vllm_ec_link.mmap").symlink_to(tmp_path / "elsewhere")
    (shm / "vllm_ec_folder.mmap").mkdir()

    assert find_vllm_files(shm) == []


def test_a_machine_without_shared_memory_has_no_stale_file(tmp_path, proc):
    assert judge(tmp_path / "missing", proc).detail == "no file of vLLM in shared memory"


def test_a_file_that_nobody_holds_is_named_with_its_size_and_kept(shm, proc):
    file = shm / "vllm_ec_dead.mmap"
    file.write_bytes(b"x" * 8192)

    check = judge(shm, proc)

    assert check.status is CheckStatus.WARNING
    assert check.detail == f"8.00 KiB in 1 file without a living owner: {file} (8.00 KiB)"
    assert check.values == {"files": [str(file)], "bytes": 8192}
    assert file.read_bytes() == b"x" * 8192


def test_a_file_that_a_process_has_open_is_in_use(shm, proc):
    file = write(shm, "vllm_ec_live.mmap", "x")
    make_process(proc, 42, opened=["/dev/null", file])

    assert judge(shm, proc).detail == "1 in use by living processes"


def test_a_file_that_a_process_has_mapped_is_in_use_whatever_path_it_sees(shm, proc):
    file = write(shm, "vllm_offload_live.mmap", "x")
    make_process(proc, 42, maps="7f00-7f01 rw-p 00000000 00:00 0 \n" + maps_line(file))

    assert judge(shm, proc).status is CheckStatus.OK


def test_one_stale_file_among_living_ones_is_found(shm, proc):
    live, dead = write(shm, "vllm_ec_live.mmap", "x"), write(shm, "vllm_ec_dead.mmap", "x")
    make_process(proc, 42, maps=maps_line(live))

    assert judge(shm, proc).values["files"] == [str(dead)]


def test_a_process_that_ends_meanwhile_is_passed_over(shm, proc):
    write(shm, "vllm_ec_dead.mmap", "x")
    (proc / "43").mkdir()

    assert judge(shm, proc).status is CheckStatus.WARNING


def test_processes_that_cannot_be_looked_into_are_counted_and_said(shm, proc, monkeypatch):
    write(shm, "vllm_ec_dead.mmap", "x")
    read_text = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda path, **options: _refuse(path, read_text, options))

    assert "processes that could not be looked into: 1" in judge(shm, proc).detail


def _refuse(path, read_text, options):
    if path.name == "maps":
        raise PermissionError
    return read_text(path, **options)


def test_inside_a_container_it_is_said_that_others_are_not_visible(shm, proc):
    write(shm, "vllm_ec_dead.mmap", "x")
    shutil.rmtree(proc / "self")
    set_namespace(proc, CONTAINER_NAMESPACE)

    assert "processes outside this container are not visible" in judge(shm, proc).detail


def test_no_process_is_looked_into_where_there_is_no_file(tmp_path):
    assert find_holders([], tmp_path / "no-proc") == Holders(frozenset(), hidden=0, sees_all=False)


def test_many_stale_files_are_counted_and_the_first_named(shm, proc):
    for number in range(SHOWN + 2):
        write(shm, f"vllm_offload_dead.mmap.{number}", "x")

    assert judge(shm, proc).detail.endswith("and 2 more")


def test_a_living_owner_is_seen_on_this_machine(tmp_path):
    file = tmp_path / "vllm_ec_own.mmap"
    file.write_bytes(bytes(mmap.PAGESIZE))
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 0):
        files = find_vllm_files(tmp_path)
        assert check_stale_files(files, find_holders(files, Path("/proc"))).status is CheckStatus.OK
    assert check_stale_files(files, find_holders(files, Path("/proc"))).status is CheckStatus.WARNING
