"""The encoder-cache scenario: what a TOML file with ``workload = "ec"`` may say, and the case that follows from it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from ecbench.core.errors import EcbenchError
from ecbench.core.units import parse_size
from ecbench.encoder_cache.region import region_blocks
from ecbench.encoder_cache.workloads.models import ELEMENT_BYTES, EncoderModel, find_model
from ecbench.measure.rounds import DEFAULT_ROUNDS, MAX_ROUNDS

if TYPE_CHECKING:
    from ecbench.core.records import Param

MAX_IMAGES = 4096
MAX_SOURCE_OFFSET_BYTES = 1 << 20


class Placement(StrEnum):
    """How entries come to lie in the region; each is produced by the real allocator."""

    ONE_RUN = "one-run"
    """A fresh region: every entry is one run, and all entries are neighbours."""
    CHURNED = "churned"
    """A region after thousands of allocations and evictions of mixed sizes."""
    SCATTERED = "scattered"
    """The worst case: no two blocks are neighbours."""


class ImageGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Some images of one size."""

    size: str
    count: Annotated[int, msgspec.Meta(ge=1, le=MAX_IMAGES)] = 1


class EncoderCacheScenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A scenario file."""

    workload: Literal["ec"]
    title: str
    model: str
    images: Annotated[list[ImageGroup], msgspec.Meta(min_length=1, max_length=64)]
    placement: Placement = Placement.ONE_RUN
    coalesce: bool = True
    source_offset_bytes: Annotated[int, msgspec.Meta(ge=0, le=MAX_SOURCE_OFFSET_BYTES, multiple_of=ELEMENT_BYTES)] = 0
    """Moves every device address by so much; set, addresses are no multiples of a large power of two."""
    region_bytes: int | str | None = None
    """Capacity of the region (the engine's ``ec_cpu_bytes``), like "1GiB"; by default what the entries need."""
    rounds: Annotated[int, msgspec.Meta(ge=1, le=MAX_ROUNDS)] = DEFAULT_ROUNDS


class EncoderCacheCase(msgspec.Struct, frozen=True, kw_only=True):
    """One round trip, ready to be placed and run."""

    case_id: str
    scenario: EncoderCacheScenario
    seed: int

    @property
    def model(self) -> EncoderModel:
        """The model the scenario names."""
        return find_model(self.scenario.model)

    @property
    def tokens(self) -> list[int]:
        """Tokens of each image, in order."""
        return [self.model.tokens_of(group.size) for group in self.scenario.images for _ in range(group.count)]

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Shape of each encoder output: tokens x (rows per token * hidden size)."""
        width = self.model.rows_per_token * self.model.hidden_size
        return {f"image-{index}": (tokens, width) for index, tokens in enumerate(self.tokens)}

    @property
    def blocks_per_entry(self) -> list[int]:
        """Blocks of each entry, in order."""
        return [tokens * self.model.rows_per_token for tokens in self.tokens]

    @property
    def region_capacity_blocks(self) -> int | None:
        """Blocks of the region where the scenario sets its size."""
        capacity = self.scenario.region_bytes
        return None if capacity is None else region_blocks(parse_size(capacity), self.model.block_size_bytes)

    @property
    def params(self) -> dict[str, Param]:
        """What identifies the workload in a result."""
        scenario = self.scenario
        return {
            "model": scenario.model,
            "images": [f"{group.count} x {group.size}" for group in scenario.images],
            "placement": scenario.placement.value,
            "coalesce": scenario.coalesce,
            "source_offset_bytes": scenario.source_offset_bytes,
            "region_bytes": scenario.region_bytes,
            "block_size_bytes": self.model.block_size_bytes,
            "dtype": "bfloat16",
            "entries": len(self.tokens),
        }


def make_case(case_id: str, scenario: EncoderCacheScenario, seed: int) -> EncoderCacheCase:
    """Checks a scenario against its model.

    Raises:
        EcbenchError: An unknown model or image size, too many images in all, or a region too small for them.
    """
    case = EncoderCacheCase(case_id=case_id, scenario=scenario, seed=seed)
    capacity = case.region_capacity_blocks
    if capacity is not None and capacity < sum(case.blocks_per_entry):
        raise EcbenchError(
            f"{case_id}: the entries need {sum(case.blocks_per_entry)} blocks, region_bytes {scenario.region_bytes!r} "
            f"holds {capacity}: raise it or use fewer images"
        )
    if len(case.tokens) > MAX_IMAGES:
        raise EcbenchError(f"{case_id}: {len(case.tokens)} images in all: give at most {MAX_IMAGES}")
    return case
