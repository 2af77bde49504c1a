from __future__ import annotations

import sys

import pytest

from ecbench.core.errors import DataError, EcbenchError, UnavailableError
from ecbench.core.host_memory import HostMemoryKind
from ecbench.core.records import LegStatus
from ecbench.version import __version__
from ecbench.workflows.process_rounds import (
    THIS_INSTALLATION,
    arguments_of,
    ask_version,
    merge_processes,
    run_in_fresh_process,
)
from ecbench.workflows.round_trip import RoundTripOptions
from tests.cli.conftest import TINY
from tests.comparison_samples import CHECKED_BYTES_PER_ROUND, case, failed_leg, leg, result


def test_a_fresh_process_gives_a_whole_result(tmp_path):
    scenario = tmp_path / "tiny.toml"
    scenario.write_text(TINY)
    run = run_in_fresh_process(RoundTripOptions(scenarios=(str(scenario),), device="cpu", rounds=2, seed=3))
    assert run.complete
    (only,) = run.cases
    assert only.params["seed"] == 3
    assert [len(direction.samples) for direction in only.legs] == [2, 2]


@pytest.mark.parametrize(
    ("code", "said", "error"),
    [
        (2, "ecbench: unknown device 'tpu': choose one of cpu", EcbenchError),
        (3, "ecbench: cuda: no device", UnavailableError),
        (4, "Traceback\nSomethingError: odd", DataError),
        (-9, "", DataError),
    ],
)
def test_a_process_that_fails_says_why_and_keeps_its_exit_code(code, said, error):
    program = f"import os, sys; sys.stderr.write({said!r}); sys.stderr.flush(); "
    program += f"os.kill(os.getpid(), {-code})" if code < 0 else f"sys.exit({code})"
    with pytest.raises(EcbenchError) as caught:
        run_in_fresh_process(RoundTripOptions(), (sys.executable, "-c", program))
    assert type(caught.value) is error
    last = said.splitlines()[-1].removeprefix("ecbench: ") if said else "it ended with -9 and said nothing"
    assert str(caught.value) == f"a process round failed: {last}"


def test_an_interrupted_process_interrupts():
    with pytest.raises(KeyboardInterrupt):
        run_in_fresh_process(RoundTripOptions(), (sys.executable, "-c", "raise SystemExit(130)"))


def test_an_interpreter_that_is_not_there_is_named():
    with pytest.raises(UnavailableError, match="/no/such/python: cannot be started"):
        run_in_fresh_process(RoundTripOptions(), ("/no/such/python", "-m", "ecbench"))


def test_a_process_reports_to_no_step_of_its_own(tmp_path, monkeypatch):
    for variable in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.setenv(variable, str(tmp_path / "summary.md"))
    program = "import os, sys; sys.exit(' '.join(name for name in os.environ if name.startswith('GITHUB')) or 'none')"
    with pytest.raises(EcbenchError, match="a process round failed: none"):
        run_in_fresh_process(RoundTripOptions(), (sys.executable, "-c", program))


def test_a_result_of_a_newer_schema_says_so_without_a_path_that_is_gone():
    program = "import sys; path = sys.argv[sys.argv.index('--json') + 1]; "
    program += 'open(path, \'w\').write(\'{"schema_version": 99, "kind": "roundtrip"}\')'
    with pytest.raises(DataError, match=r"^the result of a process round: schema_version 99 is above 1: read it with"):
        run_in_fresh_process(RoundTripOptions(), (sys.executable, "-W", "ignore", "-c", program))


def test_an_ecbench_tells_its_version_and_nothing_else_is_one():
    assert ask_version(THIS_INSTALLATION) == __version__
    for program in ("print('tool 1.0')", "import sys; sys.exit('no')", "print('ecbench 1\\nmore')"):
        with pytest.raises(UnavailableError, match="is no ecbench"):
            ask_version((sys.executable, "-c", program))


def test_every_option_reaches_the_process():
    options = RoundTripOptions(
        scenarios=("a", "b.toml"),
        device="xpu-sim",
        workload="ec",
        model="m",
        target="both",
        engine="memmove",
        writer="setitem",
        coalesce=False,
        rounds=9,
        seed=4,
        memory_limit_bytes=1 << 30,
        host_memory=HostMemoryKind.PAGEABLE,
    )
    text = " ".join(arguments_of(options))
    assert text == (
        "roundtrip a b.toml --device xpu-sim --workload ec --engine memmove --writer setitem --seed 4 --pageable "
        "--target both --model m --rounds 9 --memory-limit 1073741824 --no-coalesce"
    )
    assert set(arguments_of(RoundTripOptions())) >= {"--pinned", "auto"}


def test_an_older_ecbench_is_not_asked_for_the_only_target_it_has():
    assert "--target" not in arguments_of(RoundTripOptions())


def test_merged_processes_are_numbered_and_summed():
    merged = merge_processes([result(case(leg(seed=seed))) for seed in range(3)])
    (only,) = merged.cases[0].legs
    assert [sample.process for sample in only.samples] == [0] * 7 + [1] * 7 + [2] * 7
    assert only.verify.checked_bytes == 3 * 8 * CHECKED_BYTES_PER_ROUND
    assert only.median_s is not None


def test_a_leg_that_went_wrong_in_one_process_is_wrong():
    merged = merge_processes([result(case(leg())), result(case(failed_leg()))])
    (only,) = merged.cases[0].legs
    assert (only.status, only.reason) == (LegStatus.FAILED, "bytes are wrong: swapped, first at byte 4096")


def test_one_interrupted_process_makes_the_whole_incomplete_and_a_missing_case_is_named():
    assert not merge_processes([result(case(leg())), result(case(leg()), complete=False)]).complete
    with pytest.raises(DataError, match="case tiny/example is missing from a process round"):
        merge_processes([result(case(leg())), result()])
