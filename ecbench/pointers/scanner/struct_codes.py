"""Which arguments of ``struct.pack`` go into signed slots."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ecbench.pointers.scanner.events import Call
    from ecbench.pointers.scanner.values import Value

_CODE = re.compile(r"(?P<count>\d*)(?P<code>[a-zA-Z?])")
_SIGNED = frozenset("bhilqn")
_ONE_ARGUMENT = frozenset("sp")
_MAX_SLOTS = 1024
"""Formats with more slots are not followed."""


def signed_arguments(call: Call) -> list[Value]:
    """The arguments that a literal format packs as signed integers; none where the format is not literal."""
    skipped = 1 if call.method == "pack" else 3
    packed = call.arguments[skipped:]
    text = call.arguments[0].name if call.arguments else None
    if text is None:
        return []
    return [value for value, code in zip(packed, _slots(text.strip("'\"")), strict=False) if code in _SIGNED]


def _slots(text: str) -> str:
    slots = ""
    for match in _CODE.finditer(text):
        count, code = match["count"], match["code"]
        if code == "x":
            continue
        repeats = 1 if code in _ONE_ARGUMENT else min(int(count[:6] or 1), _MAX_SLOTS)
        slots += code * repeats
        if len(slots) > _MAX_SLOTS:
            break
    return slots
