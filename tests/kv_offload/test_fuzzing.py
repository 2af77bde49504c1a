from __future__ import annotations

import pytest

from ecbench.core.errors import EcbenchError
from ecbench.kv_offload import GroupKind, HostLayout
from ecbench.kv_offload.fuzzing import MAX_TOKENS, draw_request, fits

DRAWN = [draw_request(0, number) for number in range(400)]


def test_the_same_seed_and_number_draw_the_same_request():
    assert draw_request(3, 14) == draw_request(3, 14)
    assert draw_request(3, 14) != draw_request(4, 14)
    assert draw_request(3, 14) != draw_request(3, 15)


def test_every_drawn_request_can_be_planned():
    assert all(fits(request) and 1 <= request.tokens <= MAX_TOKENS for request in DRAWN)


@pytest.mark.parametrize(
    "shown",
    [
        lambda request: {group.kind for group in request.model.groups} == {GroupKind.SLIDING},
        lambda request: any(group.kind == GroupKind.FULL and group.eagle for group in request.model.groups),
        lambda request: any(group.kind == GroupKind.SLIDING and group.eagle for group in request.model.groups),
        lambda request: any(group.kind == GroupKind.MAMBA for group in request.model.groups),
        lambda request: any(group.kind == GroupKind.CHUNKED for group in request.model.groups),
        lambda request: any(group.retained_tokens for group in request.model.groups),
        lambda request: any(group.window_tokens == group.tokens_per_block + 1 for group in request.model.groups),
        lambda request: len({group.tokens_per_block for group in request.model.groups}) > 2,
        lambda request: request.settings.retention_interval == 0,
        lambda request: (request.settings.retention_interval or 0) > 0,
        lambda request: request.settings.blocks_per_chunk == 3,
        lambda request: request.settings.prefix_match_unit is not None,
        lambda request: request.settings.host_layout is HostLayout.REPLICATED,
        lambda request: request.step_tokens is not None,
        lambda request: request.shared_prefix is not None,
    ],
)
def test_everything_that_rules_depend_on_is_drawn(shown):
    assert any(map(shown, DRAWN))


def test_a_seed_that_draws_nothing_that_fits_is_told(monkeypatch):
    monkeypatch.setattr("ecbench.kv_offload.fuzzing.fits", lambda _: False)
    with pytest.raises(EcbenchError, match="seed 9: no request that fits was drawn"):
        draw_request(9, 0)
