"""Comments that accept a finding: ``# ecbench: ignore[R1] reason``."""

from __future__ import annotations

import io
import re
import tokenize
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ecbench.core.scan_records import Finding

_COMMENT = re.compile(r"#\s*ecbench:\s*ignore\[(?P<rules>[^\]]*)\]\s*(?P<reason>.*)")


class Suppressions:
    """The suppressing comments of one source.

    A comment counts for a finding whose expression or statement has it on one of its lines, and, where it stands alone,
    for the line below it.

    Args:
        text: The source.
    """

    def __init__(self, text: str) -> None:
        self._reasons: dict[int, dict[str, str]] = {}
        if "ecbench:" in text:
            self._collect(text)

    def accepts(self, finding: Finding) -> bool:
        """Whether a comment accepts a finding."""
        return self._reason(finding) is not None

    def lacks_reason(self, finding: Finding) -> bool:
        """Whether a comment accepts a finding but does not say why."""
        return self._reason(finding) == ""

    def _reason(self, finding: Finding) -> str | None:
        found = [
            self._reasons[line][finding.rule]
            for line in range(finding.line, finding.end_line + 1)
            if finding.rule in self._reasons.get(line, {})
        ]
        return max(found) if found else None

    def _collect(self, text: str) -> None:
        try:
            for token in tokenize.generate_tokens(io.StringIO(text).readline):
                if token.type == tokenize.COMMENT:
                    self._add(token)
        except (tokenize.TokenError, SyntaxError):
            return

    def _add(self, token: tokenize.TokenInfo) -> None:
        match = _COMMENT.search(token.string)
        if match is None:
            return
        line, column = token.start
        alone = not token.line[:column].strip()
        for rule in match["rules"].split(","):
            self._reasons.setdefault(line + alone, {})[rule.strip()] = match["reason"].strip()
