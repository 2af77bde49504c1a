"""Names from files without what would move a cursor, reorder a line or end a table row."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

if TYPE_CHECKING:
    from ecbench.core.records import Record

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")
_SPACES = frozenset("\t\n\r\x0b\x0c\u2028\u2029")
_ESCAPED_IN_JSON = re.compile(rb"\\[ntrbfu]")
_RISKY_UTF8 = re.compile(
    rb"\xc2[\x80-\x9f]|\x7f|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]|\xef\xbb\xbf|\xef\xbf[\xbe\xbf]"
)
T = TypeVar("T", bound="Record")


def printable(text: str) -> str:
    """Shows control characters and those that reorder text as escapes; any space is a plain one."""
    return _UNPRINTABLE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    if character in _SPACES:
        return " "
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"  # noqa: PLR2004 - the shorter form ends there


def printable_record(record: T, record_type: Any) -> T:
    """The same record with every text in it made `printable`.

    Args:
        record: Any record.
        record_type: Its type, with the types of what it holds where it is generic.
    """
    encoded = msgspec.json.encode(record)
    if not (_ESCAPED_IN_JSON.search(encoded) or _RISKY_UTF8.search(encoded)):
        return record
    return cast("T", msgspec.convert(_printable_tree(msgspec.to_builtins(record)), record_type))


def _printable_tree(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list | tuple):
        return [_printable_tree(item) for item in value]
    if isinstance(value, dict):
        return {printable(key): _printable_tree(item) for key, item in value.items()}
    return value
