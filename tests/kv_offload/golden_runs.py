"""Runs of the real vLLM 0.33.0 scheduler, and the same as this package plans them."""

from __future__ import annotations

import json

from ecbench.kv_offload import HybridModel, OffloadPlan, OffloadSettings, load_model, plan_store
from tests.conftest import GOLDEN

RUNS = [json.loads(line) for line in (GOLDEN / "offload_scheduler_vllm_0.33.0.jsonl").read_text().splitlines()]


def run_id(run: dict) -> str:
    marks = [
        run["model"],
        run["tokens"],
        f"retention-{run['retention_interval']}",
        f"block-{run['block_size']}",
        f"chunk-{run['blocks_per_chunk']}",
        f"window-{run['sliding_window']}",
        run["kv_cache_dtype"],
        *(["mxfp4"] if run["fp4_indexer"] else []),
        *(["eagle"] if run["eagle"] else []),
    ]
    return "-".join(map(str, marks))


def model_of(run: dict) -> HybridModel:
    return load_model(
        f"deepseek-v4-{run['model']}",
        cache_dtype=run["kv_cache_dtype"],
        indexer="mxfp4" if run["fp4_indexer"] else "fp8",
        mtp=bool(run["mtp"]),
        eagle=run["eagle"],
        block_size=run["block_size"],
        sliding_window=run["sliding_window"],
    )


def plan_of(run: dict) -> OffloadPlan:
    settings = OffloadSettings(retention_interval=run["retention_interval"], blocks_per_chunk=run["blocks_per_chunk"])
    return plan_store(model_of(run), run["tokens"], settings)
