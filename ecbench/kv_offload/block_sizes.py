"""Block sizes that cache groups have in common, and how many blocks a chunk has."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from ecbench.core.errors import EcbenchError
from ecbench.kv_offload.groups import GroupKind, MambaCacheMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.kv_offload.groups import CacheGroup


class BlockSizes(NamedTuple):
    """What all groups agree on, in tokens."""

    scheduler_block_size: int
    """Computed tokens are counted in multiples of it."""
    hash_block_size: int
    """Tokens behind one block hash."""


def scaled_block_size(group: CacheGroup, decode_context_parallel: int = 1) -> int:
    """Tokens of a group's block over all ranks; a Mamba state is never split over ranks."""
    return group.tokens_per_block * (1 if group.kind == GroupKind.MAMBA else decode_context_parallel)


def resolve_block_sizes(
    groups: Sequence[CacheGroup],
    *,
    decode_context_parallel: int = 1,
    prefix_match_unit: int | None = None,
    prefix_caching: bool = True,
    connector: bool = True,
) -> BlockSizes:
    """Finds the scheduler's block size and that of block hashes.

    Args:
        groups: All groups of a model, at least one.
        decode_context_parallel: Ranks over which attention blocks are spread.
        prefix_match_unit: Tokens of a hash block, where the user sets it.
        prefix_caching: Whether the engine caches prefixes.
        connector: Whether a KV connector is configured.

    Returns:
        For one group its block size twice. For several the least common multiple, and the greatest common divisor of
        the groups whose prefixes are cached (or the unit set); twice the former where nothing reads block hashes, or
        where a Mamba group does not keep states at block ends.

    Raises:
        EcbenchError: No group, a number below 1, or a group whose blocks are no multiple of the hash block.
    """
    if not groups:
        raise EcbenchError("no cache groups: a model without attention has nothing to offload")
    if decode_context_parallel < 1:
        raise EcbenchError(f"decode-context-parallel size is {decode_context_parallel}: give at least 1")
    if prefix_match_unit is not None and prefix_match_unit < 1:
        raise EcbenchError(f"prefix match unit is {prefix_match_unit} tokens: give at least 1")
    sizes = [scaled_block_size(group, decode_context_parallel) for group in groups]
    if len(groups) == 1:
        return BlockSizes(sizes[0], sizes[0])
    scheduler = math.lcm(*sizes)
    if not (prefix_caching or connector) or any(_has_no_aligned_states(group) for group in groups):
        return BlockSizes(scheduler, scheduler)
    return BlockSizes(scheduler, _hash_block_size(groups, sizes, prefix_match_unit))


def hashes_per_chunk(tokens_per_chunk: int, hash_block_size: int, name: str = "a group") -> int:
    """Block hashes that make up one chunk.

    Args:
        tokens_per_chunk: Tokens of the group's chunk.
        hash_block_size: Tokens of a hash block.
        name: The group, for the message.

    Raises:
        EcbenchError: A chunk is no multiple of a hash block, so that it has no hash of its own.
    """
    if tokens_per_chunk % hash_block_size:
        raise EcbenchError(
            f"chunks of {name} hold {tokens_per_chunk} tokens, no multiple of the hash block of {hash_block_size}: "
            "set a prefix match unit that divides every group's block, or keep Mamba states in mode 'align'"
        )
    return tokens_per_chunk // hash_block_size


def resolve_blocks_per_chunk(
    groups: Sequence[CacheGroup],
    *,
    blocks_per_chunk: int | None = None,
    connector_block_size: int | None = None,
    decode_context_parallel: int = 1,
) -> int:
    """Finds how many blocks the connector offloads as one chunk.

    Args:
        groups: All groups of a model.
        blocks_per_chunk: The setting of that name.
        connector_block_size: The connector's older ``block_size`` setting, in tokens; it can only be used where all
            groups have blocks of one size.
        decode_context_parallel: Ranks over which attention blocks are spread.

    Returns:
        Blocks per chunk, 1 where nothing is set.

    Raises:
        EcbenchError: Both are set, a number is below 1, or the block size does not fit the groups.
    """
    if blocks_per_chunk is not None and connector_block_size is not None:
        raise EcbenchError(
            f"blocks_per_chunk = {blocks_per_chunk} and the connector's block_size = {connector_block_size} say the "
            "same thing: give blocks_per_chunk only"
        )
    if connector_block_size is not None:
        return _blocks_of_connector_block(groups, connector_block_size, decode_context_parallel)
    if blocks_per_chunk is not None and blocks_per_chunk < 1:
        raise EcbenchError(f"blocks_per_chunk is {blocks_per_chunk}: give at least 1")
    return blocks_per_chunk or 1


def _has_no_aligned_states(group: CacheGroup) -> bool:
    return group.kind == GroupKind.MAMBA and group.mamba_cache_mode != MambaCacheMode.ALIGN


def _hash_block_size(groups: Sequence[CacheGroup], sizes: Sequence[int], unit: int | None) -> int:
    pairs = list(zip(groups, sizes, strict=True))
    hashed = [(group, size) for group, size in pairs if group.prefix_cacheable] or pairs
    hash_block = math.gcd(*(size for _, size in hashed)) if unit is None else unit
    odd = [f"{group.name} ({size})" for group, size in hashed if size % hash_block]
    if odd:
        raise EcbenchError(
            f"prefix match unit of {hash_block} tokens does not divide the blocks of {', '.join(odd)}: "
            f"give a divisor of {math.gcd(*(size for _, size in hashed))}"
        )
    return hash_block


def _blocks_of_connector_block(groups: Sequence[CacheGroup], block_size: int, ranks: int) -> int:
    sizes = sorted({scaled_block_size(group, ranks) for group in groups})
    if len(sizes) != 1:
        raise EcbenchError(
            f"the connector's block_size = {block_size} cannot be set where groups have blocks of "
            f"{', '.join(map(str, sizes))} tokens: set blocks_per_chunk instead"
        )
    if block_size < 1 or block_size % sizes[0]:
        raise EcbenchError(
            f"the connector's block_size = {block_size} is no multiple of the groups' block of {sizes[0]} tokens: "
            f"give {sizes[0]} or a multiple, or set blocks_per_chunk"
        )
    return block_size // sizes[0]
