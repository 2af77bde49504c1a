from __future__ import annotations

import errno
import os

import msgspec
import pytest

from ecbench.core.errors import DataError, EcbenchError, ExitCode
from ecbench.core.records import LegResult, LegStatus
from ecbench.workflows import sweep_journal
from ecbench.workflows.sweep_journal import (
    JournalHeader,
    create_journal,
    differences,
    resume_journal,
    unfinished_journals,
)
from ecbench.workflows.sweep_ledger import CellRound
from tests.report.samples import sample_result

STEM = "sweep-tiny-2026-01-02T030405Z"


def header(**changes):
    fields = {
        "journal_version": 1,
        "scenario": "tiny",
        "started_at": "2026-01-02T03:04:05+00:00",
        "environment": sample_result().environment,
        "axes": {"count": [1, 2]},
        "max_batch_bytes": None,
        "rounds": 3,
        "budget_s": None,
        "seed": 0,
    }
    return JournalHeader(**{**fields, **changes})


def entry(number, cell=0):
    legs = [LegResult(direction="save", status=LegStatus.PASSED, notes=["a note with a \n newline"])]
    return CellRound(cell=cell, process=0, round=number, seconds=0.5, spent_s=number + 1.0, legs=legs)


@pytest.fixture
def written(tmp_path):
    """A journal of three rounds, one of them a warm-up."""
    with create_journal(tmp_path, STEM, header()) as journal:
        for number in (-1, 0, 1):
            journal.append(entry(number))
    return journal.path


def test_what_was_appended_comes_back(written):
    with resume_journal(written, header()) as journal:
        assert journal.rounds == [entry(-1), entry(0), entry(1)]
        assert journal.kept == 2
        journal.append(entry(2))
        assert journal.kept == 3
    with resume_journal(written, header()) as journal:
        assert journal.rounds[-1] == entry(2)


def test_a_round_is_on_disk_when_append_returns(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(sweep_journal.os, "fdatasync", lambda fd: synced.append(os.fstat(fd).st_size))
    with create_journal(tmp_path, STEM, header()) as journal:
        journal.append(entry(0))
        assert synced[-1] == journal.path.stat().st_size
    assert len(synced) == 2


def test_cut_at_any_byte_only_the_last_round_is_lost(written):
    data = written.read_bytes()
    ends = [index for index, byte in enumerate(data) if byte == ord("\n")]
    for cut in range(ends[0] + 1, len(data)):
        written.write_bytes(data[:cut])
        with resume_journal(written, header()) as journal:
            assert len(journal.rounds) == sum(end < cut for end in ends) - 1
            journal.append(entry(7))
        with resume_journal(written, header()) as journal:
            assert journal.rounds[-1] == entry(7)


def test_a_journal_cut_inside_its_header_is_refused(written):
    written.write_bytes(written.read_bytes()[:50])
    with pytest.raises(DataError, match="is empty: delete it"):
        resume_journal(written, header())


DAMAGE = {
    "no JSON": (b"not JSON\n", "line 4: damaged journal"),
    "other JSON": (b'{"cell": "first"}\n', "line 4: damaged journal"),
    "not UTF-8": (b"\xff\xfe\n", "line 4: damaged journal"),
    "zeros": (b"\x00" * 64 + b"\n", "line 4: damaged journal"),
}


@pytest.mark.parametrize(("line", "message"), DAMAGE.values(), ids=DAMAGE)
def test_damage_before_the_end_is_refused_with_its_line(written, line, message):
    lines = written.read_bytes().splitlines(keepends=True)
    written.write_bytes(b"".join([*lines[:3], line, *lines[3:]]))
    with pytest.raises(DataError, match=message):
        resume_journal(written, header())


def test_a_journal_of_a_newer_ecbench_names_it(tmp_path):
    create_journal(tmp_path, STEM, header(journal_version=2)).close()
    with pytest.raises(DataError, match=r"journal_version 2 is not 1: resume it with .* 0\.1\.0"):
        resume_journal(tmp_path / f"{STEM}.journal", header())


def test_every_difference_is_named():
    environment = msgspec.structs.replace(sample_result().environment, torch="3.0", host_cpus=64)
    other = header(environment=environment, axes={"count": [1], "engine": ["auto"]}, seed=5)
    assert differences(header(), other) == [
        "torch: 2.13.0+cpu there, 3.0 here",
        "host_cpus: 2 there, 64 here",
        "axis count: [1, 2] there, [1] here",
        "axis engine: None there, ['auto'] here",
        "seed: 0 there, 5 here",
    ]
    assert differences(header(), header(started_at="later")) == []


@pytest.mark.parametrize("kept_bytes", [0, 1, 100])
def test_a_full_disk_is_one_line_and_what_was_written_can_be_resumed(written, monkeypatch, kept_bytes):
    real = os.write

    def full(fd, data):
        if kept_bytes and not full.called:
            full.called = True
            return real(fd, data[:kept_bytes])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    full.called = False
    with resume_journal(written, header()) as journal:
        monkeypatch.setattr(sweep_journal.os, "write", full)
        with pytest.raises(EcbenchError, match=r"No space left on device.*go on with --resume") as error:
            journal.append(entry(2))
        assert error.value.exit_code is ExitCode.USAGE
        monkeypatch.undo()
    with resume_journal(written, header()) as journal:
        assert journal.rounds == [entry(-1), entry(0), entry(1)]


def test_a_full_disk_at_the_start_leaves_no_file(tmp_path, monkeypatch):
    def full(fd):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sweep_journal.os, "fdatasync", full)
    with pytest.raises(EcbenchError, match="No space left"):
        create_journal(tmp_path, STEM, header())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_gone_is_one_line(tmp_path):
    with pytest.raises(EcbenchError, match="cannot be written"):
        create_journal(tmp_path / "gone", STEM, header())
    with pytest.raises(EcbenchError, match="cannot be written"):
        resume_journal(tmp_path / "gone.journal", header())


def test_a_taken_name_gets_a_number_and_the_newest_is_last(tmp_path):
    paths = []
    for age in (3, 2, 1):
        with create_journal(tmp_path, STEM, header()) as journal:
            paths.append(journal.path)
        os.utime(journal.path, (1e9 - age, 1e9 - age))
    assert [path.name for path in paths] == [f"{STEM}.journal", f"{STEM}-2.journal", f"{STEM}-3.journal"]
    create_journal(tmp_path, STEM.replace("tiny", "tiny-2"), header()).close()
    create_journal(tmp_path, STEM.replace("tiny", "a.b*[c]"), header()).close()
    assert unfinished_journals(tmp_path, "tiny") == paths
    assert len(unfinished_journals(tmp_path, "a.b*[c]")) == 1
    assert unfinished_journals(tmp_path, "aXb") == []


def test_a_discarded_journal_is_gone(written):
    with resume_journal(written, header()) as journal:
        journal.discard()
    assert not written.exists()
