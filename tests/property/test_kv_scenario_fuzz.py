"""Whatever a KV offload scenario says, the answer is exit code 0 or 2 and one line, never a traceback."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ecbench.kv_offload.scenario import KvScenario
from tests.property.test_scenario_fuzz import _assert_clean, _run, _toml

GOOD = {"workload": "dsv4", "title": "t", "model": "deepseek-v4-flash", "tokens": 600}
WORDS = [
    "dsv4",
    "ec",
    "none",
    "pr",
    "vllm-0.33",
    "packed",
    "per-layer",
    "per-rank",
    "replicated",
    "in-order",
    "deepseek-v4-pro",
    "bfloat16",
    "fp8",
    "mxfp4",
    "../x.toml",
    "/dev/null",
    "\x00",
    ".",
]
NUMBERS = st.sampled_from([-1, 0, 1, 2, 3, 4, 64, 100, 256, 512, 4096, 1 << 22, 1 << 40, 1 << 63, -(1 << 70)])
VALUES = st.one_of(st.sampled_from(WORDS), NUMBERS, st.booleans(), st.floats(), st.lists(NUMBERS, max_size=2))


@given(st.dictionaries(st.sampled_from([*KvScenario.__struct_fields__, "surprise"]), VALUES, max_size=4))
@example({"tokens": 1 << 22, "retention_interval": "none"})
@example({"tensor_parallel": 1 << 16, "blocks_per_chunk": 1 << 16})
@example({"block_size": 1 << 40})
@settings(max_examples=200)
def test_any_values_under_any_keys(changes):
    table = {**GOOD, **changes}
    _assert_clean(
        _run("\n".join(f'"{key}" = {_toml(value)}' for key, value in table.items()).encode("utf-8", "replace"))
    )
