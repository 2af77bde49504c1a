"""The JSON Schema of every kind of result."""

from __future__ import annotations

from typing import Any

import msgspec

from ecbench.core.records import SCHEMA_VERSION
from ecbench.report.kinds import KINDS

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def results_schema() -> dict[str, Any]:
    """One schema for all results: ``kind`` decides which record the rest must be."""
    references, definitions = msgspec.json.schema_components(
        [kind.result_type for kind in KINDS.values()], ref_template="#/$defs/{name}"
    )
    return {
        "$schema": DIALECT,
        "title": f"Results of ecbench, schema_version {SCHEMA_VERSION}",
        "type": "object",
        "required": ["schema_version", "kind"],
        "properties": {"kind": {"enum": list(KINDS)}},
        "allOf": [
            {"if": {"properties": {"kind": {"const": name}}, "required": ["kind"]}, "then": reference}
            for name, reference in zip(KINDS, references, strict=True)
        ],
        "$defs": definitions,
    }
