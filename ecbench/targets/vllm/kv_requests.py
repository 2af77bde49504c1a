"""Requests and scheduler steps as vLLM makes them."""

from __future__ import annotations

from functools import cache
from typing import Any

from ecbench.targets.vllm.kv_models import named

UTILITIES = "vllm.v1.core.kv_cache_utils"
OUTPUTS = "vllm.v1.core.sched.output"


def make_request(name: str, tokens: int, hash_block_size: int, shared_prefix: int | None) -> Any:
    """A request whose tokens are its positions, so that prompts of any length share their beginnings.

    Args:
        name: Its id.
        tokens: Tokens of its prompt.
        hash_block_size: Tokens behind one block hash.
        shared_prefix: Tokens of a prefix that another request is known to share.
    """
    request = named("vllm.v1.request", "Request")(
        request_id=name,
        prompt_token_ids=list(range(tokens)),
        sampling_params=named("vllm.sampling_params", "SamplingParams")(max_tokens=1),
        pooling_params=None,
        block_hasher=named(UTILITIES, "get_request_block_hasher")(hash_block_size, _hash_function()),
    )
    if shared_prefix is not None:
        request.shared_prefix_boundary = shared_prefix
    return request


@cache
def _hash_function() -> Any:
    function = named("vllm.utils.hashing", "sha256")
    named(UTILITIES, "init_none_hash")(function)
    return function


def step_output(prompt: Any, block_ids: Any, tokens: int) -> Any:
    """A scheduler step with one request: a new one first, a known one later.

    Args:
        prompt: The request.
        block_ids: Device blocks that it was given for the step, by group.
        tokens: Tokens that the step computes.
    """
    output = named(OUTPUTS, "SchedulerOutput").make_empty()
    output.num_scheduled_tokens = {prompt.request_id: tokens}
    output.total_num_scheduled_tokens = tokens
    if not prompt.num_computed_tokens:
        output.scheduled_new_reqs = [named(OUTPUTS, "NewRequestData").from_request(prompt, block_ids)]
        return output
    output.scheduled_cached_reqs = named(OUTPUTS, "CachedRequestData")(
        req_ids=[prompt.request_id],
        resumed_req_ids=set(),
        new_token_ids=[],
        all_token_ids={},
        new_block_ids=[block_ids],
        num_computed_tokens=[prompt.num_computed_tokens],
        num_output_tokens=[0],
    )
    return output
