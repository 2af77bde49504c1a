"""Folders that look like /proc, /sys and /dev of some machine, and tools that answer as theirs would."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from ecbench.engine.diagnostics.commands import CommandOutput

GPU_CLASS = {"NVIDIA": ("0x10de", "0x030200"), "AMD": ("0x1002", "0x120000"), "Intel": ("0x8086", "0x038000")}


def write(root: Path, path: str, text: str) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def add_gpu(sys_root: Path, vendor: str, address: str = "0000:17:00.0", numa_node: int = 0) -> None:
    vendor_id, pci_class = GPU_CLASS[vendor]
    folder = f"bus/pci/devices/{address}"
    write(sys_root, f"{folder}/vendor", f"{vendor_id}\n")
    write(sys_root, f"{folder}/class", f"{pci_class}\n")
    write(sys_root, f"{folder}/numa_node", f"{numa_node}\n")


class Tools:
    """Installed tools by name, each with its answer; remembers what was run."""

    def __init__(self, **answers: CommandOutput) -> None:
        self._answers = {name.replace("_", "-"): answer for name, answer in answers.items()}
        self.ran: list[str] = []

    def __call__(self, *words: str) -> CommandOutput | None:
        self.ran.append(words[0])
        return self._answers.get(words[0])
