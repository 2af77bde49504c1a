"""Identities of findings that survive moved lines, and the file of findings that are known already."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from ecbench.core.errors import DataError, EcbenchError
from ecbench.core.records import Record, to_json
from ecbench.pointers.scanner.findings import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ecbench.core.scan_records import Finding

BASELINE_VERSION = 1
_IDENTITY_CHARACTERS = 24
"""96 bits: no two of a million findings share one by chance."""


class KnownFinding(Record, frozen=True, kw_only=True):
    """A finding in a baseline; all but the identity is for its readers."""

    identity: str
    rule: str
    path: str
    expression: str


class Baseline(Record, frozen=True, kw_only=True):
    """The findings that do not count any more."""

    kind: str
    schema_version: int
    findings: list[KnownFinding]


def identified(findings: Iterable[Finding], relative_path: str) -> list[Finding]:
    """Gives the findings of one file their identities and shortens their expressions.

    An identity is made of rule, path, enclosing function, expression and the number of the occurrence, so it stays when
    lines move and changes when the code does.

    Args:
        findings: In the order of the source, with whole expressions.
        relative_path: The file's path within the folder that is scanned.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    named = []
    for finding in findings:
        key = (finding.rule, relative_path, finding.qualified_name, " ".join(finding.expression.split()))
        digest = hashlib.sha256("\0".join((*key, str(seen[key]))).encode("utf-8", "surrogatepass")).hexdigest()
        seen[key] += 1
        named.append(
            msgspec.structs.replace(
                finding, identity=digest[:_IDENTITY_CHARACTERS], expression=shortened(finding.expression)
            )
        )
    return named


def write_baseline(findings: Iterable[Finding], path: Path) -> None:
    """Writes a baseline that holds these findings.

    Raises:
        EcbenchError: The file cannot be written.
    """
    known = [
        KnownFinding(identity=entry.identity, rule=entry.rule, path=entry.path, expression=entry.expression)
        for entry in findings
    ]
    content = to_json(Baseline(kind="scan-ptrs-baseline", schema_version=BASELINE_VERSION, findings=known))
    try:
        path.write_bytes(content)
    except OSError as error:
        raise EcbenchError(f"baseline {str(path)!r} cannot be written ({error.strerror}): give another path") from error


def read_baseline(path: Path) -> frozenset[str]:
    """The identities that a baseline holds.

    Raises:
        DataError: The file cannot be read or is no baseline.
    """
    try:
        baseline = msgspec.json.decode(path.read_bytes(), type=Baseline)
    except OSError as error:
        raise DataError(
            f"baseline {str(path)!r} cannot be read ({error.strerror}): write one with --write-baseline"
        ) from error
    except msgspec.DecodeError as error:
        raise DataError(f"baseline {str(path)!r} is no baseline ({error}): write one with --write-baseline") from error
    if baseline.kind != "scan-ptrs-baseline" or baseline.schema_version != BASELINE_VERSION:
        raise DataError(
            f"baseline {str(path)!r} is a {baseline.kind!r} of version {baseline.schema_version}: "
            "write a new one with --write-baseline"
        )
    return frozenset(finding.identity for finding in baseline.findings)
