"""Edge cases of steps and outputs: no bytes, too many bytes, saves that never come, other dtypes and strides."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from ecbench.core.conformance_protocols import Finished
from ecbench.encoder_cache.conformance.definitions import (
    Check,
    CheckFailedError,
    NoInput,
    describe_error,
    require,
    require_bytes,
    require_equal,
)
from ecbench.encoder_cache.conformance.outputs import BLOCK_BYTES, ROW_ELEMENTS, bytes_of, one_row
from ecbench.encoder_cache.conformance.refusals import names_text, require_named
from ecbench.encoder_cache.conformance.steps import load_step, require_saved, require_stored, save_step, stored_bytes

if TYPE_CHECKING:
    from torch import Tensor

    from ecbench.core.conformance_protocols import ConformanceWorker
    from ecbench.encoder_cache.conformance.bench import Bench

_ROWS = 2
_LATER_STEPS = 4
_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


class Dtypes(NamedTuple):
    """What the model computes in, and what the encoder gives."""

    model: str
    encoder: str


class Order(NamedTuple):
    """In which order entries are loaded."""

    order: tuple[str, ...]


class Touched(NamedTuple):
    """Blocks of the region, and rows of the entries that a step touches."""

    region_blocks: int
    rows: tuple[int, ...]


def _zero_length_save(bench: Bench, _: NoInput) -> None:
    worker = bench.worker()
    save_step(worker, {"empty": (worker.to_device(_empty()), [])})
    require_saved(worker, ["empty"])


def _save_after_zero_length(bench: Bench, _: NoInput) -> None:
    worker = bench.worker()
    save_step(worker, {"empty": (worker.to_device(_empty()), [])})
    worker.run_copies()
    worker.poll()
    output = bench.content(BLOCK_BYTES)
    save_step(worker, {"a": (worker.to_device(output), [3])})
    worker.run_copies()
    require("a" in worker.poll().saved, "the save after it is not reported")
    require_stored(worker, [3], bytes_of(output))


def _zero_length_load(bench: Bench, _: NoInput) -> None:
    worker = bench.worker()
    view = load_step(worker, {"empty": ([], (0, ROW_ELEMENTS))})["empty"]
    worker.run_copies()
    require_equal(tuple(view.shape), (0, ROW_ELEMENTS), "shape")
    require_equal(tuple(worker.poll().loaded), (0,), "reported loads")


def _zero_length_load_with_others(bench: Bench, _: NoInput) -> None:
    worker = bench.worker()
    views = load_step(worker, {"empty": ([], (0, ROW_ELEMENTS)), "a": ([3], one_row(BLOCK_BYTES))})
    worker.run_copies()
    require_equal(sorted(worker.poll().loaded, key=repr), [0, 1], "reported loads")
    require_bytes(bytes_of(worker.to_host(views["a"])), stored_bytes(worker, [3]), "the other entry")


def _empty() -> Tensor:
    return torch.empty((0, ROW_ELEMENTS), dtype=torch.bfloat16)


def _larger_than_region(bench: Bench, given: Touched) -> None:
    scheduler = bench.scheduler(bench.spec(blocks=given.region_blocks))
    touched = {f"entry {number}": rows for number, rows in enumerate(given.rows)}
    plan = scheduler.plan_step(touched)
    fitting = [key for key, rows in touched.items() if rows <= given.region_blocks]
    require_equal(sorted(plan.saves), fitting, "saves of the step")


def _save_never_runs(bench: Bench, _: NoInput) -> None:
    spec = bench.spec(blocks=2)
    worker, scheduler = bench.worker(spec), bench.scheduler(spec)
    plan = scheduler.plan_step({"never": 2})
    require_equal(sorted(plan.saves), ["never"], "saves of the step")
    worker.begin_step(plan.saves, {})
    for _turn in range(_LATER_STEPS):
        worker.flush()
        worker.run_copies()
        scheduler.report(0, worker.poll())
        worker.begin_step(scheduler.plan_step({}).saves, {})
    saves = sorted(scheduler.plan_step({"b": 2}).saves)
    require(saves == ["b"], f"its blocks are still held {_LATER_STEPS} steps later, and no other entry is saved")


def _non_contiguous(bench: Bench, _: NoInput) -> None:
    worker = bench.worker()
    host = bench.content(2 * _ROWS * BLOCK_BYTES).view(_ROWS, 2 * ROW_ELEMENTS)
    output = worker.to_device(host)[:, ::2]
    try:
        save_step(worker, {"strided": (output, range(_ROWS))})
    except Exception as error:
        require_named(error, {"the entry": names_text(error, "strided")})
        _require_goes_on(bench, worker)
        return
    require_saved(worker, ["strided"])
    require_stored(worker, range(_ROWS), bytes_of(host[:, ::2].contiguous()))


def _require_goes_on(bench: Bench, worker: ConformanceWorker) -> None:
    """States that a refused save did not break the next step."""
    output = bench.content(BLOCK_BYTES)
    try:
        save_step(worker, {"next": (worker.to_device(output), [9])})
        worker.run_copies()
    except Exception as error:
        raise CheckFailedError(f"after the refusal, the next save ends in {describe_error(error)}") from error
    require("next" in worker.poll().saved, "after the refusal, the next save is not reported")
    require_stored(worker, [9], bytes_of(output))


def _other_dtype(bench: Bench, given: Dtypes) -> None:
    model, encoder = _DTYPES[given.model], _DTYPES[given.encoder]
    worker = bench.worker(bench.spec(dtype=model))
    # Small whole numbers: every dtype holds them exactly.
    values = torch.arange(_ROWS * ROW_ELEMENTS).view(_ROWS, ROW_ELEMENTS)
    output = worker.to_device(values.to(encoder))
    try:
        save_step(worker, {"a": (output, range(_ROWS))})
        worker.run_copies()
        view = load_step(worker, {"a": (range(_ROWS), (_ROWS, ROW_ELEMENTS))})["a"]
        worker.run_copies()
    except Exception as error:
        names = {dtype: names_text(error, str(dtype).removeprefix("torch.")) for dtype in (model, encoder)}
        require_named(error, {str(dtype): named for dtype, named in names.items()})
        return
    loaded = worker.to_host(view).to(torch.float32)
    wrong = int((loaded != values.to(torch.float32)).sum())
    require(not wrong, f"no error, and {wrong} of {values.numel()} values come back wrong")


def _batch_invariance(bench: Bench, given: Order) -> None:
    blocks = {"a": (4, 5, 6), "b": (0,), "c": (9, 2)}
    outputs = {key: bench.content(len(ids) * BLOCK_BYTES - 2) for key, ids in blocks.items()}
    together, apart = bench.worker(), bench.worker()
    save_step(together, {key: (together.to_device(outputs[key]), ids) for key, ids in blocks.items()})
    require_saved(together, list(blocks))
    for key in given.order:
        save_step(apart, {key: (apart.to_device(outputs[key]), blocks[key])})
        require_saved(apart, [key])
    require_bytes(bytes_of(apart.blocks), bytes_of(together.blocks), "the region after saves one by one")
    views = load_step(together, {key: (blocks[key], one_row(outputs[key].nbytes)) for key in given.order})
    together.run_copies()
    for key in given.order:
        single = load_step(apart, {key: (blocks[key], one_row(outputs[key].nbytes))})[key]
        apart.run_copies()
        wanted = bytes_of(outputs[key])
        require_bytes(bytes_of(together.to_host(views[key])), wanted, f"{key!r}, loaded with the others")
        require_bytes(bytes_of(apart.to_host(single)), wanted, f"{key!r}, loaded alone")


def _evicted_while_saving(bench: Bench, _: NoInput) -> None:
    spec = bench.spec(blocks=1)
    scheduler = bench.scheduler(spec)
    require_equal(sorted(scheduler.plan_step({"a": 1}).saves), ["a"], "saves of the step")
    require_equal(scheduler.plan_step({"b": 1}).saves, {}, "saves while the only block is being written")
    scheduler.report(0, Finished(saved=("a",)))
    require_equal(sorted(scheduler.plan_step({"a": 1}).loads), ["a"], "loads after the save")


_DONE = "it is reported like any other"
_RIGHT_OR_REFUSED = "the right values, or an error that names both dtypes"

CHECKS = (
    Check("edge.zero-length-save", None, "an output of no rows is saved", _DONE, _zero_length_save),
    Check("edge.save-after-zero-length", None, "a save in the step after an output of no rows",
          "it works as ever", _save_after_zero_length),
    Check("edge.zero-length-load", None, "an entry of no rows is loaded",
          f"a tensor of no rows, and {_DONE}", _zero_length_load),
    Check("edge.zero-length-load-with-others", None, "an entry of no rows is loaded beside another",
          "both are reported, and the other's bytes are right", _zero_length_load_with_others),
    Check("edge.larger-than-region", None, "a step touches an entry larger than the whole region",
          "its save is skipped; the other entries of the step are saved",
          _larger_than_region, (Touched(1, (2,)), Touched(2, (3, 1)))),
    Check("edge.save-never-runs", None, "a save is planned, and its output never comes",
          "its blocks become free again", _save_never_runs),
    Check("edge.no-eviction-while-saving", None, "the only block is wanted while its save is under way",
          "the second save is skipped and the first can be loaded", _evicted_while_saving),
    Check("edge.non-contiguous", None, "every second column of an output is saved",
          "the values in order, or an error that names the entry; the next save works", _non_contiguous),
    Check("edge.wider-encoder-dtype", None, "the encoder's dtype is wider than the model's",
          _RIGHT_OR_REFUSED, _other_dtype, (Dtypes("bf16", "fp32"), Dtypes("fp16", "fp32"))),
    Check("edge.other-encoder-dtype", None, "the encoder's dtype is another that fits the model's blocks",
          _RIGHT_OR_REFUSED, _other_dtype,
          (Dtypes("fp16", "bf16"), Dtypes("bf16", "fp16"), Dtypes("fp32", "bf16"))),
    Check("edge.batch-invariance", None, "entries saved and loaded together, apart, and in another order",
          "the same bytes everywhere", _batch_invariance,
          (Order(("a", "b", "c")), Order(("c", "b", "a")), Order(("b", "c", "a")))),
)  # fmt: skip
