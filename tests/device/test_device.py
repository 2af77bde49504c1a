"""The same checks under pytest, on the accelerator of this machine; skipped where there is none."""

from __future__ import annotations

import pytest
import torch

from ecbench.engine.registry import ENGINES, open_device, open_engine, why_unavailable
from tests.device.checks import CHECKS, second_device_outcomes

pytestmark = [
    pytest.mark.device,
    pytest.mark.skipif(not torch.accelerator.is_available(), reason="torch sees no accelerator"),
]


@pytest.fixture(scope="module")
def gpu():
    return open_device("auto")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("engine", [*ENGINES, "auto"])
def test_on_the_device(engine, check, gpu):
    reason = why_unavailable(engine, gpu)
    if reason is not None:
        pytest.skip(reason)
    check(gpu, open_engine(engine, gpu))


def test_on_a_second_device(gpu):
    outcomes = second_device_outcomes(gpu, [name for name in ENGINES if why_unavailable(name, gpu) is None])
    if not outcomes:
        pytest.skip("there is one device only")
    assert [outcome for outcome in outcomes if outcome.problem] == []
