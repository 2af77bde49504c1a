"""Small hybrids for tests."""

from __future__ import annotations

from ecbench.kv_offload import CacheGroup, CacheTensor, GroupKind, HybridModel


def group(name: str, kind: str, tokens_per_block: int, window: int | None = None, **changes) -> CacheGroup:
    page = changes.pop("page_size_bytes", 1024)
    return CacheGroup(
        name=name,
        kind=GroupKind(kind),
        tokens_per_block=tokens_per_block,
        tensors=(CacheTensor(layers=1, page_size_bytes=page, real_page_size_bytes=page),),
        window_tokens=window,
        **changes,
    )


def hybrid(*groups: CacheGroup) -> HybridModel:
    return HybridModel(name="hybrid", title="Hybrid", groups=groups)
