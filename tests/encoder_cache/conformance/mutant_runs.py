"""Runs every mutant through the check that must find it, in one process that forks: ``python -m``, JSON on stdout."""

from __future__ import annotations

import json
import secrets
import sys

import torch

from ecbench.encoder_cache.conformance.registry import CHECKS
from ecbench.encoder_cache.conformance.running import names_of
from ecbench.targets.reference_conformance import ReferenceConformance
from ecbench.targets.reference_conformance_worker import ReferenceWorker
from ecbench.workflows.check_isolation import adopt_orphans, prepare_forks, run_isolated
from ecbench.workflows.conformance_server import remove_files
from tests.encoder_cache.conformance.region_mutants import FURTHER_REGION_MUTANTS, REGION_MUTANTS
from tests.encoder_cache.conformance.scheduler_mutants import ALLOCATOR_MUTANTS, SCHEDULER_MUTANTS
from tests.encoder_cache.conformance.worker_mutants import FURTHER_WORKER_MUTANTS, WORKER_MUTANTS

LIMIT_S = 30.0


class Assembled(ReferenceConformance):
    """The reference with one part exchanged."""

    def __init__(self, **parts):
        super().__init__()
        self._parts = parts

    def allocator(self, num_blocks):
        return self._parts.get("allocator", super().allocator)(num_blocks)

    def scheduler(self, spec):
        return self._parts.get("scheduler", super().scheduler)(spec)

    def worker(self, spec):
        made = super().worker(spec)
        exchanged = self._parts.get("worker", ReferenceWorker)
        return made if exchanged is ReferenceWorker else exchanged(spec, made._region)


def mutants():
    """Pairs of a check and a target that it must fail, by a name."""
    parts = {"worker": WORKER_MUTANTS, "allocator": ALLOCATOR_MUTANTS, "scheduler": SCHEDULER_MUTANTS}
    pairs = [(check, kind, part) for kind, table in parts.items() for check, part in table.items()]
    pairs += [(check, "worker", part) for check, part in FURTHER_WORKER_MUTANTS]
    pairs += [(check, "target", target) for check, target in [*REGION_MUTANTS.items(), *FURTHER_REGION_MUTANTS]]
    return {f"{part.__name__} fails {check}": (check, kind, part) for check, kind, part in pairs}


def main():
    torch.set_num_threads(1)
    adopt_orphans()
    prepare_forks()
    found = {}
    for number, (name, (check, kind, part)) in enumerate(mutants().items()):
        target = part() if kind == "target" else Assembled(**{kind: part})
        label = f"ecbench-mutant-{secrets.token_hex(4)}-{number}"
        end = run_isolated(CHECKS[check], target, label, 0, LIMIT_S)
        remove_files([path for own in names_of(label) for path in target.files(own)])
        found[name] = {**{field: str(getattr(end.verdict, field)) for field in ("outcome", "happened", "reason")}}
        found[name]["input"] = end.verdict.smallest_input
        found[name]["output"] = end.output
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
