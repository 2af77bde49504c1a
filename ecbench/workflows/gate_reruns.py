"""How a stored result is asked for once more: per kind, what becomes of each of its settings on the command line.

A new kind is one line in `RERUNS`; its command must keep every option that decides what comes out in the settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ecbench.core.records import Param

    Words = Callable[[Param], list[str]]
    """What a setting is on the command line."""


def _operand(value: Param) -> list[str]:
    return [] if value is None else [str(value)]


def _option(name: str) -> Words:
    """An option with a value; one that was given several times has a list."""

    def words(value: Param) -> list[str]:
        values = value if isinstance(value, list) else [] if value is None else [value]
        return [word for entry in values for word in (name, str(entry))]

    return words


def _flags(words_by_value: Mapping[Param, str]) -> Words:
    """Flags for the values that have one."""
    return lambda value: [word for known, word in words_by_value.items() if known == value]


_SAVINGS = {
    "model": _option("--model"),
    "tokens": _option("--tokens"),
    "policy": _option("--policy"),
    "retention_interval": _option("--retention-interval"),
    "alignment_tokens": _option("--alignment-tokens"),
    "block_size": _option("--block-size"),
    "blocks_per_chunk": _option("--blocks-per-chunk"),
    "connector_block_size": _option("--connector-block-size"),
    "eagle": _flags({True: "--eagle"}),
    "mtp": _flags({True: "--mtp"}),
    "indexer": _option("--indexer"),
    "cache_dtype": _option("--cache-dtype"),
    "tp": _option("--tp"),
    "host_layout": _flags({"replicated": "--replicated", "per-rank": "--per-rank"}),
    "host_memory_bytes": _option("--host-memory"),
    "prove": _flags({True: "--prove", False: "--no-prove"}),
    "measure": _flags({True: "--measure", False: "--no-measure"}),
    "against": _option("--against"),
    "step_tokens": _option("--step-tokens"),
}
_MEASURED_SAVINGS = _SAVINGS | {
    "device": _option("--device"),
    "budget_s": _option("--budget"),
    "memory_limit_bytes": _option("--memory-limit"),
    "seed": _option("--seed"),
}
_PROBE = {
    "torch": _option("--torch"),
    "numpy": _option("--numpy"),
    "python": _option("--python"),
    "details": _flags({True: "--details"}),
}
_SCAN = {
    "path": _operand,
    "package": _option("--package"),
    "fail_on": _option("--fail-on"),
    "baseline": _option("--baseline"),
    "strict": _flags({True: "--strict"}),
}

RERUNS: dict[str, Callable[[Mapping[str, Param]], Mapping[str, Words]]] = {
    "dsv4-swa-savings": lambda settings: _MEASURED_SAVINGS if settings.get("measure") else _SAVINGS,
    "probe-ptr-overflow": lambda _: _PROBE,
    "scan-ptrs": lambda _: _SCAN,
}
"""By kind of result, which is the name of its command: the settings that ask for it, given all that it holds."""


def arguments_for(kind: str, settings: Mapping[str, Param]) -> list[str]:
    """The command line of ``ecbench`` that asks for a result once more.

    Args:
        kind: One of `RERUNS`.
        settings: Of the result.

    Raises:
        DataError: The result comes from a version that did not keep all of its options.
    """
    words = RERUNS[kind](settings)
    missing = [name for name in words if name not in settings]
    if missing:
        raise DataError(
            f"its settings lack {', '.join(missing)}, so it cannot be run again as it was: write a new baseline with "
            f"`ecbench {kind} ... --json FILE`"
        )
    return [kind, *(word for name, words_of in words.items() for word in words_of(settings[name]))]
