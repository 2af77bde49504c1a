"""Byte verification of one round, and the sum of a leg's rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.core.records import Verify
from ecbench.measure.diagnosis import diagnose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.core.copy_plan import CopyPlan
    from ecbench.core.protocols import Memory


def verify_round(
    plan: CopyPlan, source: Memory, destination: Memory, key: int, earlier_keys: Sequence[int] = ()
) -> Verify:
    """Holds final memory against a plan: every byte of both buffers, guards included.

    Args:
        plan: What was to be copied, block by block; offsets are relative to the two buffers.
        source: Held the content of ``key`` before the copy.
        destination: Held poison before the copy.
        key: Key of this round's content.
        earlier_keys: Keys of earlier rounds, newest first; tells stale bytes from corrupt ones.

    Returns:
        The round's verdict.
    """
    checked = source.nbytes + destination.nbytes
    if source.holds_content(key) and destination.holds_copies(plan, key):
        return _passed(checked)
    diagnosis = diagnose(plan, source.to_host(), destination.to_host(), key, earlier_keys)
    return Verify(
        ok=False,
        checked_bytes=checked,
        mismatched_bytes=diagnosis.mismatched_bytes,
        source_changed=diagnosis.source_changed_bytes > 0,
        stray_bytes=diagnosis.stray_bytes,
        fault=diagnosis.fault,
        first_mismatch=diagnosis.first_mismatch,
        fault_counts=diagnosis.fault_counts,
    )


def _passed(checked_bytes: int) -> Verify:
    return Verify(
        ok=True,
        checked_bytes=checked_bytes,
        mismatched_bytes=0,
        source_changed=False,
        stray_bytes=0,
        fault=None,
        first_mismatch=None,
    )


def combine_rounds(rounds: Sequence[Verify]) -> Verify:
    """Sums the rounds of a leg; the first failing round gives the fault and where it was seen.

    Args:
        rounds: At least one verdict.
    """
    first_failure = next((verify for verify in rounds if not verify.ok), rounds[0])
    return Verify(
        ok=all(verify.ok for verify in rounds),
        checked_bytes=sum(verify.checked_bytes for verify in rounds),
        mismatched_bytes=sum(verify.mismatched_bytes for verify in rounds),
        source_changed=any(verify.source_changed for verify in rounds),
        stray_bytes=sum(verify.stray_bytes for verify in rounds),
        fault=first_failure.fault,
        first_mismatch=first_failure.first_mismatch,
        fault_counts=first_failure.fault_counts,
    )
