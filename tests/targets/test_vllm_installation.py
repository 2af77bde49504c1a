"""Finding and importing vLLM, whatever it is like."""

from __future__ import annotations

import logging
import sys

import pytest

from ecbench.core.errors import ExitCode, UnavailableError
from ecbench.targets.vllm.installation import find, installed_version, load_vllm, part_of, why_unavailable

INIT = "__init__.py"


def append(path, line):
    path.write_text(path.read_text() + line + "\n")


def refusal(call, *arguments):
    with pytest.raises(UnavailableError) as caught:
        call(*arguments)
    assert caught.value.exit_code is ExitCode.UNAVAILABLE
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_without_vllm_the_message_says_what_to_install(no_vllm, monkeypatch):
    monkeypatch.setattr("ecbench.targets.vllm.installation._DISTRIBUTIONS", ("no-such-distribution",))
    assert "not installed: install vLLM 0.32 or 0.33" in refusal(load_vllm)
    assert installed_version() is None


def test_a_known_release_is_imported_once(vllm_tree):
    first = load_vllm()
    assert (first.version, first.device_type) == ("0.32.9", "cpu")
    assert load_vllm() is first


def test_the_version_is_that_of_the_files_an_import_would_find(vllm_tree):
    assert installed_version() == "0.32.9"
    assert why_unavailable() is None
    assert "vllm" not in sys.modules


@pytest.mark.parametrize("version", ["0.31.4", "0.3.2", "0.320.0", "1.0", "dev"])
def test_an_unknown_release_is_refused_without_importing_it(vllm_tree, version):
    (vllm_tree / "_version.py").write_text(f'__version__ = "{version}"\n')
    append(vllm_tree / INIT, "raise AssertionError('imported')")
    message = refusal(load_vllm)
    assert f"vLLM {version} is installed" in message
    assert "0.32 or 0.33" in message


@pytest.mark.parametrize("version", ["0.33.0", "0.32.1.dev7+g0123abc", "0.33"])
def test_every_version_of_a_known_release_is_taken(vllm_tree, version):
    (vllm_tree / "_version.py").write_text(f'__version__ = "{version}"\n')
    assert load_vllm().version == version


def test_a_release_that_only_the_import_tells_is_refused_too(vllm_tree, monkeypatch):
    monkeypatch.setattr("ecbench.targets.vllm.installation.installed_version", lambda: None)
    append(vllm_tree / INIT, "__version__ = '0.40.1'")
    assert "vLLM 0.40.1 is installed, and its connectors are not known" in refusal(load_vllm)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("import no_such_package", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("raise RuntimeError('built for another torch\\nand more')", "RuntimeError: built for another torch"),
        ("raise SystemExit('no licence')", "SystemExit: no licence"),
        ("raise OSError('libcuda.so.1: cannot open')", "OSError: libcuda.so.1: cannot open"),
    ],
)
def test_an_import_that_fails_names_the_exception(vllm_tree, line, named):
    append(vllm_tree / INIT, line)
    message = refusal(load_vllm)
    assert "the import of vllm of vLLM 0.32.9 fails with" in message
    assert named in message


def test_ctrl_c_during_the_import_is_no_failure_of_vllm(vllm_tree):
    append(vllm_tree / INIT, "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        load_vllm()


def test_nothing_that_the_import_prints_reaches_stdout(vllm_tree, capfd):
    append(vllm_tree / INIT, "import os\nprint('from python')\nos.write(1, b'from compiled code')")
    load_vllm()
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "from python" in printed.err
    assert "from compiled code" in printed.err


def test_what_vllm_logs_later_goes_to_stderr_and_only_if_it_is_an_error(vllm_tree, capsys):
    lines = ["import logging, sys", "logging.getLogger('vllm').addHandler(logging.StreamHandler(sys.stdout))"]
    append(vllm_tree / INIT, "\n".join(lines))
    load_vllm()
    logging.getLogger("vllm.worker").warning("a warning")
    logging.getLogger("vllm.worker").error("an error")
    assert capsys.readouterr() == ("", "an error\n")


def test_a_warning_does_not_end_an_import(vllm_tree):
    append(vllm_tree / INIT, "import warnings\nwarnings.warn('old', DeprecationWarning)")
    assert load_vllm().version == "0.32.9"


def test_a_name_that_is_not_there_is_named_with_its_module_and_version(vllm_tree):
    load_vllm()
    assert "vllm.platforms of vLLM 0.32.9 has no Rocket" in refusal(find, "vllm.platforms", "Rocket")


def test_a_module_that_is_not_there_is_named(vllm_tree):
    assert "the import of vllm.rockets of vLLM 0.32.9 fails" in refusal(find, "vllm.rockets", "Rocket")


def test_an_attribute_error_inside_a_module_is_a_failed_import_of_it(vllm_tree):
    append(vllm_tree / "platforms/cpu.py", "CpuPlatform.device.kind")
    assert "the import of vllm.platforms.cpu" in refusal(find, "vllm.platforms.cpu", "CpuPlatform")


def test_a_part_that_another_release_lacks_is_named(vllm_tree):
    assert part_of("text", "upper")() == "TEXT"
    assert "str of vLLM 0.32.9 has no _queue" in refusal(part_of, "text", "_queue")
