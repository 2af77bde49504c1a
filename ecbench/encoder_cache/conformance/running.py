"""Runs one check with its inputs, from small to large, until one fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecbench.core.conformance_protocols import NotApplicableError
from ecbench.core.conformance_records import ConformanceOutcome
from ecbench.encoder_cache.conformance.bench import Bench
from ecbench.encoder_cache.conformance.definitions import CheckFailedError, describe_error, describe_input, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ecbench.core.conformance_protocols import ConformanceTarget
    from ecbench.encoder_cache.conformance.definitions import Check

NAMES_PER_CHECK = 32
"""Connectors and regions that one check may make; the names of all their files are known before it starts."""


@dataclass(frozen=True)
class Verdict:
    """How one check ended.

    Args:
        outcome: Passed, failed or not applicable.
        happened: What the target did instead; None where it passed.
        smallest_input: The input that showed it; None where the check has none.
        reason: Why the check is not applicable.
        inputs: Inputs that were tried.
    """

    outcome: ConformanceOutcome
    happened: str | None = None
    smallest_input: str | None = None
    reason: str | None = None
    inputs: int = 0


def names_of(label: str) -> Iterator[str]:
    """The names that the connectors and regions of one check get.

    Args:
        label: Unique to the check on this machine, for as long as it runs.
    """
    return (f"{label}-{number}" for number in range(NAMES_PER_CHECK))


def run_check(
    check: Check, target: ConformanceTarget, label: str, seed: int, announce: Callable[[str], None]
) -> Verdict:
    """Runs a check in this process.

    Args:
        check: What to run.
        target: What to run it on.
        label: As for `names_of`.
        seed: Of everything drawn.
        announce: Is told each input before it is tried, so that whoever watches knows which one ended the process.
    """
    names = names_of(label)
    for number, given in enumerate(check.inputs, start=1):
        text = describe_input(given)
        announce(text)
        bench = Bench(target, names, seed)
        try:
            check.run(bench, given)
        except NotApplicableError as error:
            return Verdict(ConformanceOutcome.NOT_APPLICABLE, reason=str(error), inputs=number - 1)
        except CheckFailedError as error:
            return _failed(str(error), text, number)
        except Exception as error:
            return _failed(describe_error(error), text, number)
        finally:
            bench.close()
    return Verdict(ConformanceOutcome.PASSED, inputs=len(check.inputs))


def _failed(happened: str, given: str, number: int) -> Verdict:
    return Verdict(ConformanceOutcome.FAILED, shorten(happened), given or None, inputs=number)
