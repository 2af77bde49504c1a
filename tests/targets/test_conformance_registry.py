from __future__ import annotations

import pytest

from ecbench import EcbenchError
from ecbench.core.errors import ExitCode, UnavailableError
from ecbench.targets.conformance_registry import CONFORMANCE_TARGETS, locate_target, open_target
from ecbench.targets.reference_conformance import ReferenceConformance

FAULTY = "tests.workflows.conformance_targets"


def test_registered_names_and_classes_of_ones_own_are_located_without_an_import():
    assert locate_target("vllm") == CONFORMANCE_TARGETS["vllm"]
    assert locate_target("package.no_such:Class") == "package.no_such:Class"


@pytest.mark.parametrize("name", ["", "vlm", "module:", ":Class", "a b:Class", "module:Class:more", "module:1"])
def test_anything_else_is_told_the_choices(name):
    with pytest.raises(EcbenchError, match="choose one of reference, vllm, module:Class"):
        locate_target(name)


def test_a_target_is_made_without_arguments():
    assert isinstance(open_target("reference"), ReferenceConformance)


@pytest.mark.parametrize("name", ["Nothing", "not_a_class"])
def test_a_class_that_is_not_there_is_bad_input(name):
    with pytest.raises(EcbenchError, match=f"has no class '{name}'") as caught:
        open_target(f"{FAULTY}:{name}")
    assert caught.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no_such_module:Target", "the import of no_such_module fails with ModuleNotFoundError: No module named"),
        (
            "tests.workflows.conformance_broken_import:Target",
            r"fails with RuntimeError: libtarget\.so\.12: cannot open",
        ),
        (f"{FAULTY}:RaisesAtOnce", r"RaisesAtOnce\(\) raises ValueError: no licence for this machine"),
    ],
)
def test_what_cannot_be_imported_or_made_is_not_available_in_one_line(target, message):
    with pytest.raises(UnavailableError, match=message) as caught:
        open_target(target)
    assert "\n" not in str(caught.value)
