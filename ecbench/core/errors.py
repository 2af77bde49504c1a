"""The error tree.

```
EcbenchError            2  usage, invalid input, a refused operation
├── ScenarioError       2  a scenario file that cannot be used (names the key and the line)
├── DoesNotFitError     2  memory that is not there (names both numbers)
├── UnavailableError    3  a device, engine or target that cannot run here
├── DataError           4  a result file that cannot be read or compared
└── CopyRefusedError    1  a writer, an engine or torch refused a copy (becomes a leg with status "error")
```

Every message is one line that names the thing, the value and the mend. The class decides the exit code.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """Exit codes of every command."""

    OK = 0
    CHECK_FAILED = 1
    USAGE = 2
    UNAVAILABLE = 3
    BAD_DATA = 4
    INCONCLUSIVE = 5
    INTERRUPTED = 130


class EcbenchError(Exception):
    """Base of all errors that ecbench raises on purpose; one line, meant for a user.

    Args:
        message: What is wrong and with which value, and what to do about it.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.USAGE

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class ScenarioError(EcbenchError):
    """A scenario file that cannot be used."""


class DoesNotFitError(EcbenchError):
    """A case that needs more memory than there is or than was allowed."""


class UnavailableError(EcbenchError):
    """A device, engine or target that cannot run on this machine."""

    exit_code = ExitCode.UNAVAILABLE


class DataError(EcbenchError):
    """A result file that cannot be read or compared."""

    exit_code = ExitCode.BAD_DATA


class CopyRefusedError(EcbenchError):
    """A copy that a writer, an engine or torch refused; a leg reports it with status ``error``."""

    exit_code = ExitCode.CHECK_FAILED


def error_class_of(exit_code: int) -> type[EcbenchError]:
    """The class of error that an ecbench in another process ended with.

    Args:
        exit_code: Of a process that gave no result.

    Returns:
        A class that leads to the same exit code; `DataError` for codes that say nothing about what is missing.
    """
    classes: dict[int, type[EcbenchError]] = {ExitCode.USAGE: EcbenchError, ExitCode.UNAVAILABLE: UnavailableError}
    return classes.get(exit_code, DataError)


def unknown_name(kind: str, name: str, known: list[str] | tuple[str, ...]) -> EcbenchError:
    """Builds the error for a name that a registry does not hold.

    Args:
        kind: What was asked for, for example ``"engine"``.
        name: The name as given.
        known: The names that exist.

    Returns:
        The error to raise; it lists the choices.
    """
    return EcbenchError(f"unknown {kind} {name!r}: choose one of {', '.join(known)}")
