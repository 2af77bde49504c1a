from __future__ import annotations

import itertools

import pytest

from ecbench import EcbenchError
from ecbench.encoder_cache.conformance.completeness import refuse_incomplete, refuse_incomplete_parts
from ecbench.targets.reference_conformance import ReferenceConformance
from tests.workflows import conformance_targets as targets


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (targets.NoWorker, "target NoWorker has no 'worker'"),
        (targets.NoOption, "target NoOption has no 'capacity_option'"),
        (targets.OtherSignature, r"create_region\(name, size\) cannot be called as create_region\(name, num_blocks"),
        (targets.ForeignFiles, "files.* gives '/dev/shm/psm_somebody': give paths in /dev/shm whose file names hold"),
        (targets.FilesElsewhere, "gives '/etc/ecbench-name'"),
        (targets.FilesRaise, "files.* raises OSError: no such thing"),
    ],
)
def test_a_target_that_is_not_whole_is_refused_by_its_name(target, message):
    with pytest.raises(EcbenchError, match=message):
        refuse_incomplete(target())


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            targets.PartWithoutMethod,
            "allocator object has no 'alloc': see ecbench.core.conformance_protocols.ConformanceAllocator",
        ),
        (
            targets.PartWithOtherSignature,
            r"allocator OtherAlloc: alloc\(key\) cannot be called as alloc\(key, blocks\)",
        ),
    ],
)
def test_a_part_that_is_not_whole_is_refused_by_its_class(target, message):
    with pytest.raises(EcbenchError, match=message):
        refuse_incomplete_parts(target(), map(str, itertools.count()))


def test_the_reference_is_whole():
    refuse_incomplete(ReferenceConformance())
    refuse_incomplete_parts(ReferenceConformance(), map(str, itertools.count()))


def test_a_part_that_cannot_be_made_is_left_to_the_checks():
    class Unmakeable(ReferenceConformance):
        def worker(self, spec):
            raise OSError("no memory")

    refuse_incomplete_parts(Unmakeable(), map(str, itertools.count()))
