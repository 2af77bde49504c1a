"""TOML files into records, with errors that name the key and the line."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, TypeVar

import msgspec

from ecbench.core.errors import EcbenchError, ScenarioError

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")

_KEY_LINE = r"^\s*(?:[\w\"'.-]+\.)?[\"']?{key}[\"']?\s*(?:[.=\]])|[\[{{,]\s*[\"']?{key}[\"']?\s*[=\].]"
_UNKNOWN_FIELD = re.compile(r"unknown field `(?P<key>[^`]*)`")
_PATH = re.compile(r" - at `(?P<path>[^`]*)`")
_PATH_KEY = re.compile(r"\.([^.\[\]]+)")
_PATH_ENTRY = re.compile(r"^\$\.([^.\[\]]+)\[(\d+)\]")
MAX_FILE_BYTES = 1 << 20
"""No scenario or model file comes near; a larger file is a mistake."""


def read_text(path: Path) -> str:
    """Reads a TOML file as text.

    Raises:
        ScenarioError: It cannot be read, is too large or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ScenarioError(
            f"{path}: cannot be read ({error}): name a shipped scenario or a readable TOML file"
        ) from error
    if len(data) > MAX_FILE_BYTES:
        raise ScenarioError(f"{path}: is larger than {MAX_FILE_BYTES} bytes: no scenario is")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path}: byte {error.start} is not UTF-8: save the file as UTF-8 text") from error


def parse_table(text: str, where: str) -> dict[str, object]:
    """Parses TOML.

    Args:
        text: The file's text.
        where: Its name, for messages.

    Raises:
        ScenarioError: The text is not TOML; the message has the line.
    """
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, ValueError, RecursionError) as error:
        raise ScenarioError(f"{where}: not valid TOML: {error}") from error


def convert_table(table: dict[str, object], text: str, where: str, record: type[T]) -> T:
    """Turns a parsed table into a record.

    Args:
        table: From `parse_table`.
        text: The text it was parsed from; used to find the line of a bad key.
        where: The file's name, for messages.
        record: A msgspec type.

    Raises:
        ScenarioError: An unknown or missing key, or a value of another type or out of range; key and line are named.
    """
    try:
        return msgspec.convert(table, record)
    except msgspec.ValidationError as error:
        raise ScenarioError(f"{where}{_place(str(error), text)}: {_readable(str(error))}") from error
    except EcbenchError as error:
        raise ScenarioError(f"{where}: {error}") from error


def _place(message: str, text: str) -> str:
    unknown = _UNKNOWN_FIELD.search(message)
    path = _PATH.search(message)
    keys = ([unknown["key"]] if unknown else []) + (_PATH_KEY.findall(path["path"])[::-1] if path else [])
    entry = _PATH_ENTRY.match(path["path"]) if path else None
    for key in keys:
        line = line_in_entry(text, entry[1], int(entry[2]), key) if entry else line_of_key(text, key)
        if line is not None:
            return f", line {line}, key {key!r}"
    return ""


def line_of_key(text: str, key: str) -> int | None:
    """The first line that sets a key, counted from 1."""
    pattern = re.compile(_KEY_LINE.format(key=re.escape(key)))
    return next((number for number, line in enumerate(text.splitlines(), 1) if pattern.search(line)), None)


def line_in_entry(text: str, table: str, number: int, key: str) -> int | None:
    """The line that sets a key in one entry of an array of tables, counted from 1.

    Args:
        text: The file's text.
        table: Name of the array, written as ``[[table]]``; where it is not, the first line with the key is taken.
        number: Of the entry, from 0.
        key: The key; the array's own name stands for the entry's first line.
    """
    header = re.compile(rf"\s*\[\[\s*{re.escape(table)}\s*\]\]")
    lines = text.splitlines()
    starts = [index for index, line in enumerate(lines) if header.match(line)]
    start = starts[number] if number < len(starts) else 0
    line = line_of_key("\n".join(lines[start:]), key)
    return None if line is None else start + line


def _readable(message: str) -> str:
    text = _PATH.sub("", message).replace("Object", "the table").replace("`", "'")
    return text[:1].lower() + text[1:]
