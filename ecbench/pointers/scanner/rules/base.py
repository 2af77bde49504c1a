"""What a rule is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from ecbench.core.scan_records import Severity
    from ecbench.pointers.scanner.events import Event
    from ecbench.pointers.scanner.values import Value

TABLE_MEND = "write it through a cached NumPy view: table.numpy().view(np.uint64)[...] = address"


class Rule(ABC):
    """A way to break addresses >= 2**63."""

    id: ClassVar[str]
    title: ClassVar[str]
    why: ClassVar[str]
    mend: ClassVar[str]

    @abstractmethod
    def judge(self, event: Event) -> tuple[Severity, Value] | None:
        """Judges an event.

        Returns:
            How bad it is and the address that is broken; None where the rule has nothing to say.
        """
