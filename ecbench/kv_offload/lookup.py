"""What a new request hits: the lookup of vLLM 0.33.0, for any number of requests at once.

A request is two numbers here: its length, and how many of its first tokens are those of the planned prompt. Of what the
plan stores it finds the chunks that end within the latter. Requests are looked up together, as arrays, because a proof
tries thousands of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ecbench.core.errors import EcbenchError
from ecbench.kv_offload.group_search import GroupSearch, LookupState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ecbench.kv_offload.planning import GroupPlan, OffloadPlan
    from ecbench.kv_offload.runs import StoredRuns


class Hits(NamedTuple):
    """Results of a lookup; int64, shape ``(requests,)`` each."""

    tokens: NDArray[np.int64]
    """Tokens that are loaded beyond the computed ones; 0 where nothing is."""
    limiting_groups: NDArray[np.int64]
    """Index of the group that shortened the hit last; -1 where none did."""


@dataclass(frozen=True, slots=True)
class HitLengths:
    """What one request hits.

    Args:
        tokens: Tokens loaded beyond those that are computed.
        by_group: The same as if each group were the only one, in the model's order.
    """

    tokens: int
    by_group: tuple[int, ...]


def look_up(
    plan: OffloadPlan, request_tokens: int, *, shared_tokens: int | None = None, computed_tokens: int = 0
) -> HitLengths:
    """Looks up one request in what a plan stores.

    Args:
        plan: From `ecbench.kv_offload.plan_store`.
        request_tokens: Tokens of the request.
        shared_tokens: Of these, how many at the start are the planned prompt's; by default as many as can be.
        computed_tokens: Tokens at the start that the device holds already.

    Returns:
        Hit lengths overall and per group.

    Raises:
        EcbenchError: A number is out of range.
    """
    longest = min(request_tokens, plan.prompt.tokens)
    shared = longest if shared_tokens is None else shared_tokens
    if request_tokens < 1 or not 0 <= shared <= longest or not 0 <= computed_tokens <= request_tokens:
        raise EcbenchError(
            f"request of {request_tokens} tokens, {shared} shared, {computed_tokens} computed: "
            f"give at least 1, 0 to {max(longest, 0)}, and no more computed than there are"
        )
    lookup = Lookup(plan.groups, computed_tokens)
    lengths, shares = np.array([request_tokens]), np.array([shared])
    overall = int(lookup.hits(lengths, shares).tokens[0])
    return HitLengths(
        overall, tuple(int(lookup.hits_of(index, lengths, shares)[0]) for index in range(len(plan.groups)))
    )


class Lookup:
    """Looks up requests in the stored chunks of some groups.

    Args:
        groups: What is stored.
        computed_tokens: Tokens that the device holds of every request.
    """

    def __init__(self, groups: Sequence[GroupPlan], computed_tokens: int = 0) -> None:
        self._computed = computed_tokens
        self._searches = [GroupSearch.of(index, group, computed_tokens) for index, group in enumerate(groups)]

    def hits(self, lengths: NDArray[np.int64], shared: NDArray[np.int64]) -> Hits:
        """Looks up requests in all groups.

        Args:
            lengths: Tokens of each request; int64, shape ``(requests,)``.
            shared: Tokens that each shares with the prompt, no more than it has; int64, shape ``(requests,)``.

        Returns:
            What each hits.
        """
        return self._run(self._searches, lengths, shared)

    def hits_of(self, index: int, lengths: NDArray[np.int64], shared: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tokens that requests would hit if one group were the only one; arguments as in `hits`."""
        return self._run([self._searches[index]], lengths, shared).tokens

    def runs_of(self, index: int) -> StoredRuns:
        """Runs of a group's stored chunks, from the first chunk that is not wholly computed."""
        return self._searches[index].runs

    def _run(self, asked: Sequence[GroupSearch], lengths: NDArray[np.int64], shared: NDArray[np.int64]) -> Hits:
        full = [search for search in asked if search.window_chunks is None]
        windows = [search for search in asked if search.window_chunks is not None]
        windows.sort(key=lambda search: -(search.window_chunks or 0))
        requests = LookupState.start(lengths, shared, len(self._searches))
        if windows:
            _recompute_last_token(requests, windows)
        searches = [*full, *windows]
        while searches and len(requests.open):
            again = self._pass(requests, searches)
            requests.open = requests.open[again]
            searches = windows
        return Hits(np.maximum(requests.limits - self._computed, 0), requests.limiting)

    def _pass(self, requests: LookupState, searches: Sequence[GroupSearch]) -> NDArray[np.bool_]:
        """Asks the groups in turn about the open requests; tells which of them have to be asked again."""
        again = np.zeros(len(requests.open), dtype=np.bool_)
        seen_window = False
        for search in searches:
            rows = requests.open
            before = requests.limits[rows]
            limits = search.limit(requests, rows, before, self._computed)
            requests.limits[rows] = limits
            requests.limiting[rows[limits < before]] = search.index
            hits = limits - self._computed
            shrunk = (hits < requests.last_hits[rows]) & (hits > 0)
            if not search.is_eagle:
                requests.verified[:, rows[shrunk]] = False
            if seen_window:
                again |= shrunk
            requests.last_hits[rows] = hits
            seen_window |= search.window_chunks is not None
        return again & (requests.limits[requests.open] > self._computed)


def _recompute_last_token(requests: LookupState, windows: Sequence[GroupSearch]) -> None:
    """With a window the last token has to be computed again, from the last state where a group keeps states."""
    requests.limits -= 1
    for search in windows:
        if search.rounds_hits:
            rest = requests.limits % search.tokens_per_chunk
            requests.limits -= rest
            requests.limiting[rest > 0] = search.index
