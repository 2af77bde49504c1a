"""Results as JUnit XML: a test case per check, for CI systems that count them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from ecbench.report.checks import CheckLine, Outcome
from ecbench.report.documents import shown
from ecbench.report.kinds import checks_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.report.kinds import AnyResult

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKS = {
    Outcome.FAILED: Failure,
    Outcome.ERROR: Error,
    Outcome.SKIPPED: Skipped,
    Outcome.INCONCLUSIVE: Skipped,
    Outcome.LATENT: Skipped,
}


def render_junit(results: Sequence[AnyResult]) -> str:
    """A suite per result, a case per check."""
    document = JUnitXml("ecbench")
    for result in results:
        document.add_testsuite(_suite(result))
    document.update_statistics()  # type: ignore[no-untyped-call]
    text: str = document.tostring().decode()  # type: ignore[no-untyped-call]
    return text if text.endswith("\n") else f"{text}\n"


def _suite(result: AnyResult) -> TestSuite:
    environment = result.environment
    emulated = " (EMULATED)" if environment.emulation else ""
    suite = TestSuite(_xml(f"ecbench {result.kind} on {environment.device}{emulated}"))
    suite.timestamp = _xml(result.started_at)
    for name in environment.__struct_fields__:
        suite.add_property(name, _xml(shown(getattr(environment, name))))
    lines = checks_of(result)
    for line in [*lines, *_interruption(result)]:
        suite.add_testcase(_case(line))
    return suite


def _interruption(result: AnyResult) -> list[CheckLine]:
    if result.complete:
        return []
    message = f"the run was interrupted ({result.ended_by or 'by its user'}): only finished cases are here"
    return [CheckLine(result.kind, "the run is complete", Outcome.ERROR, message, "interrupted")]


def _case(line: CheckLine) -> TestCase:
    case = TestCase(_xml(line.name), classname=_xml(line.group), time=round(line.seconds, 9))
    if mark := _MARKS.get(line.outcome):
        case.result = [mark(_xml(line.message), _xml(line.label))]
    if line.details:
        case.system_out = _xml(line.details)
    return case


def _xml(text: str) -> str:
    """Replaces the characters that XML 1.0 cannot hold even as references."""
    return _NOT_XML.sub("\ufffd", text)
