from __future__ import annotations

import errno
import os
import stat

import pytest

from ecbench import EcbenchError
from ecbench.report import files
from ecbench.report.files import refuse_unwritable, write_atomically, write_result_files


def names_in(folder):
    return [path.name for path in folder.iterdir()]


def _fail_with(code):
    def fail(*_, **__):
        raise OSError(code, os.strerror(code))

    return fail


def test_files_are_written_whole_and_readable_by_others(tmp_path):
    path = tmp_path / "a.json"
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~files._umask()
    assert names_in(tmp_path) == ["a.json"]


@pytest.mark.parametrize("step", ["fsync", "replace", "fchmod"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_failure_keeps_the_old_file_and_leaves_no_other(tmp_path, monkeypatch, step, code):
    path = tmp_path / "a.json"
    path.write_bytes(b"old")
    monkeypatch.setattr(files.os, step, _fail_with(code))
    with pytest.raises(EcbenchError, match=f"a.json: cannot be written .{os.strerror(code)}"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert names_in(tmp_path) == ["a.json"]


def test_ctrl_c_while_writing_leaves_no_half_file(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "a.json", b"new")
    assert names_in(tmp_path) == []


def test_a_missing_folder_is_made_and_an_impossible_one_refused(tmp_path):
    refuse_unwritable(tmp_path / "a" / "b")
    assert names_in(tmp_path / "a" / "b") == []
    (tmp_path / "file").touch()
    with pytest.raises(EcbenchError, match="file: cannot be written"):
        refuse_unwritable(tmp_path / "file")


def test_a_second_result_of_the_same_second_does_not_overwrite_the_first(tmp_path):
    first = write_result_files(tmp_path, "run", {".json": b"1", ".md": b"1"})
    second = write_result_files(tmp_path, "run", {".json": b"2", ".md": b"2"})
    assert [path.name for path in first] == ["run.json", "run.md"]
    assert [path.name for path in second] == ["run-2.json", "run-2.md"]
    assert first[0].read_bytes() == b"1"
