"""What the rules forbid goes wrong in the torch and NumPy that are installed, and what they advise does not."""

from __future__ import annotations

import array
import ctypes
import struct

import numpy as np
import pytest
import torch

ADDRESS = 0xFFFFD556B6400FFF
TWOS = ADDRESS - 2**64
REFUSED = (ValueError, OverflowError, RuntimeError, struct.error, TypeError)


def int64_table():
    return torch.zeros(2, dtype=torch.int64)


def assign(table, value):
    table[0] = value


@pytest.mark.parametrize(
    "forbidden",
    [
        pytest.param(lambda: torch.tensor([ADDRESS]), id="R1-no-dtype"),
        pytest.param(lambda: torch.tensor([ADDRESS], dtype=torch.int64), id="R1-int64"),
        pytest.param(lambda: torch.full((2,), ADDRESS, dtype=torch.int64), id="R1-full"),
        pytest.param(lambda: assign(int64_table(), ADDRESS), id="R2-int64"),
        pytest.param(lambda: int64_table().fill_(ADDRESS), id="R2-fill"),
        pytest.param(lambda: np.asarray([ADDRESS], dtype=np.int64), id="R3-int64"),
        pytest.param(lambda: assign(np.zeros(2, np.int64), ADDRESS), id="R3-store"),
        pytest.param(lambda: torch.tensor([TWOS], dtype=torch.uint64), id="R5-constructor"),
        pytest.param(lambda: struct.pack("q", ADDRESS), id="R8-struct"),
        pytest.param(lambda: ADDRESS.to_bytes(8, "little", signed=True), id="R8-to-bytes"),
        pytest.param(lambda: array.array("q", [ADDRESS]), id="R8-array"),
        pytest.param(lambda: int(torch.tensor([ADDRESS], dtype=torch.uint64)[0]), id="R9-int"),
        pytest.param(lambda: hex(torch.tensor([ADDRESS], dtype=torch.uint64)[0]), id="R9-hex"),
    ],
)
def test_what_a_rule_calls_a_crash_raises(forbidden):
    with pytest.raises(REFUSED):
        forbidden()


def test_a_custom_operator_refuses_a_raw_address_and_takes_twos_complement():
    with torch.library._scoped_library("ecbench_scan_test", "FRAGMENT") as library:
        library.define("take(int address) -> int")
        library.impl("take", lambda address: address, "CompositeExplicitAutograd")
        with pytest.raises(REFUSED):
            torch.ops.ecbench_scan_test.take(ADDRESS)
        assert torch.ops.ecbench_scan_test.take(TWOS) == TWOS


@pytest.mark.parametrize(
    "forbidden",
    [
        pytest.param(lambda: np.array([ADDRESS, 5])[0], id="R3-mixed"),
        pytest.param(lambda: (np.uint64(ADDRESS) + np.arange(1))[0], id="R4-scalar"),
        pytest.param(lambda: (np.array([ADDRESS], np.uint64) + np.arange(1))[0], id="R4-array"),
        pytest.param(lambda: float(ADDRESS), id="R7"),
        pytest.param(lambda: ctypes.c_int64(ADDRESS).value, id="R8-ctypes"),
        pytest.param(lambda: torch.scalar_tensor(ADDRESS).item(), id="R1-scalar"),
    ],
)
def test_what_a_rule_calls_corruption_changes_the_address_silently(forbidden):
    assert int(forbidden()) != ADDRESS


def written_through_numpy():
    table = torch.zeros(1, dtype=torch.uint64)
    table.numpy().view(np.uint64)[...] = ADDRESS
    return table.tolist()[0]


@pytest.mark.parametrize(
    "advised",
    [
        pytest.param(lambda: torch.tensor([ADDRESS], dtype=torch.uint64).tolist()[0], id="R1"),
        pytest.param(written_through_numpy, id="R2"),
        pytest.param(lambda: np.array([ADDRESS, 5], dtype=np.uint64)[0], id="R3"),
        pytest.param(lambda: (np.uint64(ADDRESS - 64) + np.arange(2).astype(np.uint64) * np.uint64(64))[1], id="R4"),
        pytest.param(lambda: struct.unpack("Q", struct.pack("Q", ADDRESS))[0], id="R8-struct"),
        pytest.param(lambda: ctypes.c_void_p(ADDRESS).value, id="R8-ctypes"),
        pytest.param(lambda: torch.tensor([ADDRESS], dtype=torch.uint64)[0].item() + 0, id="R9"),
    ],
)
def test_what_a_rule_advises_keeps_the_address(advised):
    assert advised() == ADDRESS


def test_twos_complement_in_an_int64_table_has_the_right_bytes():
    table = int64_table()
    table[0] = TWOS
    assert table.numpy().view(np.uint64)[0] == ADDRESS
