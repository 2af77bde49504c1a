from __future__ import annotations

from itertools import pairwise

from ecbench.kv_offload import GroupKind
from ecbench.kv_offload.fuzzing import draw_request
from ecbench.kv_offload.shrinking import shrink, smaller_requests

DRAWN = [draw_request(0, number) for number in range(400)]


def test_smaller_requests_are_never_the_same_and_only_get_smaller():
    for request in DRAWN[:50]:
        for smaller in smaller_requests(request):
            assert smaller != request
            assert smaller.tokens <= request.tokens
            assert len(smaller.model.groups) <= len(request.model.groups)


def test_a_difference_shrinks_to_what_it_needs():
    def differs(request):
        drafts = [group for group in request.model.groups if group.eagle and group.kind == GroupKind.SLIDING]
        return request.tokens >= 10 and any((group.window_tokens or 0) >= 5 for group in drafts)

    start = next(request for request in DRAWN if differs(request) and len(request.model.groups) > 2)
    *_, smallest = shrink(start, differs)
    (only,) = smallest.model.groups
    assert (smallest.tokens, only.window_tokens, only.tokens_per_block, only.eagle) == (10, 5, 1, True)
    assert (only.retained_tokens, smallest.step_tokens, smallest.shared_prefix) == (0, None, None)
    assert smallest.settings.blocks_per_chunk == 1
    assert smallest.settings.retention_interval is None


def test_every_step_of_shrinking_still_differs_and_is_another():
    def differs(request):
        return request.tokens > 7

    start = next(request for request in DRAWN if request.tokens > 100)
    steps = list(shrink(start, differs))
    assert steps[0] == start
    assert all(map(differs, steps))
    assert all(first != second for first, second in pairwise(steps))


def test_shrinking_ends_after_so_many_tries():
    tried = []

    def never(request):
        tried.append(request)
        return False

    assert list(shrink(DRAWN[0], never, max_tries=5)) == [DRAWN[0]]
    assert len(tried) == 5
