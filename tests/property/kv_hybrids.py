"""Random hybrids, settings and prompts."""

from __future__ import annotations

from hypothesis import strategies as st

from ecbench.core.errors import EcbenchError
from ecbench.kv_offload import CacheGroup, CacheTensor, GroupKind, HybridModel, OffloadSettings, plan_store
from ecbench.kv_offload.groups import MambaCacheMode

BLOCKS = st.sampled_from([1, 2, 3, 4, 6, 8, 16])
MAX_TOKENS = 160


@st.composite
def cache_groups(draw, name: str) -> CacheGroup:
    kind = draw(st.sampled_from([GroupKind.FULL, GroupKind.SLIDING, GroupKind.SLIDING, *GroupKind]))
    has_window = kind in {GroupKind.SLIDING, GroupKind.CHUNKED}
    return CacheGroup(
        name=name,
        kind=kind,
        tokens_per_block=draw(BLOCKS),
        tensors=(CacheTensor(layers=1, page_size_bytes=64, real_page_size_bytes=60),),
        window_tokens=draw(st.integers(1, 40)) if has_window else None,
        retained_tokens=draw(st.sampled_from([0, 0, 1, 7, 40])) if kind is GroupKind.SLIDING else 0,
        eagle=draw(st.sampled_from([False, False, True])) if kind is not GroupKind.MAMBA else False,
        mamba_cache_mode=MambaCacheMode.ALIGN if kind is GroupKind.MAMBA else None,
    )


@st.composite
def plans(draw):
    """A plan of a random prompt of a random hybrid under random settings."""
    count = draw(st.integers(1, 4))
    groups = tuple(draw(cache_groups(f"g{index}")) for index in range(count))
    retention = draw(st.sampled_from([None, None, 0, 48, 96]))
    settings = OffloadSettings(
        policy=draw(st.sampled_from(["pr", "vllm-0.33"])),
        retention_interval=retention,
        blocks_per_chunk=draw(st.sampled_from([1, 1, 2, 3])),
    )
    tokens = draw(st.integers(1, MAX_TOKENS))
    shared = draw(st.lists(st.integers(1, tokens), max_size=2))
    try:
        return plan_store(
            HybridModel(name="random", title="random", groups=groups), tokens, settings, shared_prefixes=shared
        )
    except EcbenchError:
        return plan_store(
            HybridModel(name="random", title="random", groups=groups[:1]),
            tokens,
            OffloadSettings(policy=settings.policy),
            shared_prefixes=shared,
        )
