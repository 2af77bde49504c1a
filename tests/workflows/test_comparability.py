from __future__ import annotations

import msgspec
import pytest

from ecbench.core.comparison_records import DifferenceEffect
from ecbench.core.errors import EcbenchError
from ecbench.workflows.comparability import (
    RULES,
    UNDER_TEST_NAMES,
    environment_differences,
    path_difference,
    times_refusal,
    workload_difference,
)
from ecbench.workflows.comparable import ComparableLeg
from tests.comparison_samples import ENVIRONMENT

REFUSING = {
    "device": "cuda:0",
    "device_name": "another product",
    "host_cpu": "another CPU",
    "host_cpus": 16,
    "host_memory_bytes": 128 << 30,
    "last_level_cache_bytes": 1 << 20,
    "driver": "550.1",
    "pinning": "registered",
    "emulation": "xpu-sim",
    "stand_ins": ["torch.Event"],
    "torch": "2.12.0",
}
SAID = {"ecbench": "0.2.0", "numpy": "2.0.0", "python": "3.12.1", "kernel": "6.2.0", "vllm": "0.33.0"}


def _differences(under_test=(), **changes):
    return environment_differences(ENVIRONMENT, msgspec.structs.replace(ENVIRONMENT, **changes), under_test)


def test_every_field_of_an_environment_has_a_rule():
    assert len(RULES) == len(ENVIRONMENT.__struct_fields__) == len(REFUSING) + len(SAID)


def test_equal_environments_differ_in_nothing():
    assert _differences() == []
    assert times_refusal([]) is None


@pytest.mark.parametrize(("field", "value"), REFUSING.items())
def test_what_times_depend_on_refuses_them_and_is_named_with_both_values(field, value):
    (difference,) = _differences(**{field: value})
    assert difference.effect is DifferenceEffect.TIMES_REFUSED
    refusal = times_refusal([difference])
    assert refusal.startswith("not comparable: ")
    assert f"{difference.name} {difference.base} and {difference.new}" in refusal


@pytest.mark.parametrize(("field", "value"), SAID.items())
def test_what_stands_around_the_copies_is_only_said(field, value):
    (difference,) = _differences(**{field: value})
    assert difference.effect is DifferenceEffect.SAID
    assert times_refusal([difference]) is None


def test_times_of_two_versions_of_vllm_are_not_compared_unless_it_is_under_test():
    old, new = (msgspec.structs.replace(ENVIRONMENT, vllm=version) for version in ("0.32.0", "0.33.0"))
    (difference,) = environment_differences(old, new)
    assert (difference.name, difference.effect) == ("vllm", DifferenceEffect.TIMES_REFUSED)
    (difference,) = environment_differences(old, new, ["vllm"])
    assert difference.effect is DifferenceEffect.UNDER_TEST


def test_another_device_index_of_one_product_is_no_difference():
    one, two = (msgspec.structs.replace(ENVIRONMENT, device=f"cuda:{index}") for index in (0, 1))
    assert environment_differences(one, two) == []


def test_a_few_megabytes_of_memory_are_no_other_machine():
    assert _differences(host_memory_bytes=(64 << 30) - (50 << 20)) == []


@pytest.mark.parametrize("name", UNDER_TEST_NAMES)
def test_the_thing_under_test_may_differ(name):
    (difference,) = _differences((name,), **{name: "another"})
    assert difference.effect is DifferenceEffect.UNDER_TEST


def test_a_machine_cannot_be_under_test():
    with pytest.raises(EcbenchError, match="unknown thing under test 'host CPU': choose one of driver, vllm, torch"):
        _differences(("host CPU",))


@pytest.mark.parametrize("name", ["engine", "writer", "rounds"])
def test_path_and_length_of_a_measurement_are_no_part_of_the_workload(name):
    assert workload_difference({"model": "m", name: "a"}, {"model": "m", name: "b"}) is None


def test_a_workload_difference_names_the_parameter():
    assert workload_difference({"model": "m", "seed": 0}, {"model": "m", "seed": 1}) == "seed is 0 and 1"
    assert workload_difference({"model": "m"}, {}) == "model is m and None"


def _leg(**changes):
    return ComparableLeg(**{"name": "save", "figures": {}, "engine": "memmove", "writer": "setitem", **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"engine": "gather"}, "engine memmove and gather"),
        ({"writer": "numpy-batch"}, "writer setitem and numpy-batch"),
        ({"notes": ("went through a bounce buffer",)}, "only new has the note 'went through a bounce buffer'"),
        ({"notes": ("unverified here: no run is recorded",)}, None),
        ({}, None),
    ],
)
def test_another_path_is_named(changes, words):
    assert path_difference(_leg(), _leg(**changes)) == words
