"""NUMA nodes, where the GPUs are attached, and whether this process stays on one node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecbench.core.doctor_records import ok, warning
from ecbench.engine.diagnostics.files import parse_id_list, read_field, read_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ecbench.core.doctor_records import Check
    from ecbench.core.records import Param
    from ecbench.engine.diagnostics.devices import Gpu


@dataclass(frozen=True)
class NumaFacts:
    """Where memory is, and where this process may run.

    Args:
        nodes: All nodes with memory.
        cpu_nodes: Nodes whose cores this process may run on.
    """

    nodes: tuple[int, ...]
    cpu_nodes: tuple[int, ...]


def read_numa(sys_root: Path, proc_root: Path) -> NumaFacts:
    """Reads the nodes and this process's share of them.

    Args:
        sys_root: /sys.
        proc_root: /proc.
    """
    folder = sys_root / "devices/system/node"
    nodes = parse_id_list(read_line(folder / "has_memory") or "")
    status = proc_root / "self/status"
    cores = set(parse_id_list(read_field(status, "Cpus_allowed_list") or ""))
    return NumaFacts(
        nodes=nodes,
        cpu_nodes=tuple(
            node for node in nodes if cores & set(parse_id_list(read_line(folder / f"node{node}/cpulist") or ""))
        ),
    )


def check_numa(facts: NumaFacts, gpus: Sequence[Gpu]) -> Check:
    """Warns where copies may cross between sockets unnoticed.

    Args:
        facts: From `read_numa`.
        gpus: From `find_gpus`.
    """
    gpu_nodes = sorted({gpu.numa_node for gpu in gpus if gpu.numa_node is not None})
    values: dict[str, Param] = {
        "nodes": [*facts.nodes],
        "cpu_nodes": [*facts.cpu_nodes],
        "gpu_nodes": [*gpu_nodes],
    }
    if len(facts.nodes) <= 1:
        return ok("NUMA", "one node", values)
    where = f"{len(facts.nodes)} nodes" + (f", GPUs on {_listed(gpu_nodes)}" if gpu_nodes else "")
    if len(facts.cpu_nodes) > 1:
        node = gpu_nodes[0] if gpu_nodes else facts.nodes[0]
        mend = f"numactl --cpunodebind={node} --membind={node} ecbench ..."
        return warning("NUMA", f"{where}; this process runs on {_listed(facts.cpu_nodes)}", mend, values)
    pinned = f"{where}; this process is pinned to the cores of {_listed(facts.cpu_nodes)}"
    if gpu_nodes and not set(facts.cpu_nodes) & set(gpu_nodes):
        mend = f"numactl --cpunodebind={gpu_nodes[0]} --membind={gpu_nodes[0]} ecbench ..."
        return warning("NUMA", f"{pinned}, away from every GPU", mend, values)
    return ok("NUMA", pinned, values)


def _listed(nodes: Sequence[int]) -> str:
    return f"node{'s' if len(nodes) != 1 else ''} {', '.join(map(str, nodes)) or 'unknown'}"
