"""``ecbench dsv4-swa-savings``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ecbench.cli.common import (
    DEFAULT_OUT,
    JsonOption,
    OutOption,
    QuietOption,
    SeedOption,
    publish_result,
    refuse_unwritable_targets,
    reports_errors,
)
from ecbench.core.durations import parse_duration
from ecbench.core.errors import ExitCode
from ecbench.core.units import parse_size
from ecbench.report.formats.names import DEFAULT_FILES, ReportFormat

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REPORTS = (*DEFAULT_FILES, ReportFormat.SVG, ReportFormat.PNG)
"""The page and the plots are what this command is for, so it draws them unasked."""


@reports_errors
def dsv4_swa_savings(
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="NAME|PATH",
            help="deepseek-v4-flash (default), deepseek-v4-pro, a Hugging Face config.json, or a TOML file of groups; "
            "repeatable.",
        ),
    ] = None,
    tokens: Annotated[
        list[str] | None,
        typer.Option("--tokens", metavar="N,...", help="Prompt lengths; default: 100000. A list, or repeated."),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME,...",
            help="pr (the skip of vLLM #43142), vllm-0.33, or both: the default; with --against the latter.",
        ),
    ] = None,
    retention_interval: Annotated[
        list[str] | None,
        typer.Option(
            "--retention-interval",
            metavar="none|0|N,...",
            help="Keep a window's tail every N tokens, 0: only at the request's end. Default: none and 0, the engine's "
            "own. Policy pr knows none.",
        ),
    ] = None,
    alignment_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="What hits end on; default: the full-attention groups' chunk.")
    ] = None,
    block_size: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens of a block of the full-attention groups; default: 256.")
    ] = None,
    blocks_per_chunk: Annotated[
        int | None, typer.Option(metavar="N", help="Blocks that are offloaded at once.")
    ] = None,
    connector_block_size: Annotated[
        int | None,
        typer.Option(metavar="N", help="The connector's own block_size; only where all groups have equal blocks."),
    ] = None,
    eagle: Annotated[bool, typer.Option("--eagle", help="Add the MTP layer and mark its group as EAGLE.")] = False,
    mtp: Annotated[bool, typer.Option("--mtp", help="Add the MTP layer.")] = False,
    indexer: Annotated[str | None, typer.Option(metavar="NAME", help="fp8 (default) or mxfp4.")] = None,
    cache_dtype: Annotated[
        str | None, typer.Option(metavar="NAME", help="fp8_ds_mla (default), fp8 or bfloat16.")
    ] = None,
    tensor_parallel: Annotated[
        int | None, typer.Option("--tp", metavar="N", help="Tensor-parallel ranks; default: 1.")
    ] = None,
    replicated: Annotated[
        bool | None,
        typer.Option("--replicated/--per-rank", help="One copy in a host slot, or one per rank: the default."),
    ] = None,
    host_memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Host memory whose tokens and requests are counted.")
    ] = "64GiB",
    prove: Annotated[
        bool | None,
        typer.Option("--prove/--no-prove", help="Try every advertised boundary; default: up to 1M tokens."),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure/--no-measure", help="Store and load real bytes, verified, or plan only.")
    ] = True,
    budget: Annotated[
        str, typer.Option(metavar="SECONDS", help="Time for measuring, all cases together, e.g. 60s.")
    ] = "20s",
    memory_limit: Annotated[
        str, typer.Option(metavar="SIZE", help="Memory for measuring; larger prompts are sampled.")
    ] = "1GiB",
    device: Annotated[
        str, typer.Option(help="auto, cpu, cuda[:N], xpu[:N] or xpu-sim (emulated high addresses).")
    ] = "auto",
    against: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Also ask a real scheduler, and show any difference: vllm, as installed."),
    ] = None,
    step_tokens: Annotated[
        int | None,
        typer.Option(metavar="N", help="Tokens that the scheduler computes in one step; default: the whole prompt."),
    ] = None,
    fuzz: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="With --against: draw N models and prompts in place of planning one, make what differs as small as it "
            "gets, and save it in --out.",
        ),
    ] = None,
    seed: SeedOption = 0,
    json_path: JsonOption = None,
    out: OutOption = DEFAULT_OUT,
    quiet: QuietOption = False,
) -> ExitCode:
    """Show which KV chunks are offloaded with and without the alignment skip, prove that every hit loads, and measure.

    Exit codes: 0 ok, what is lost or not used included; 1 an advertised prefix that cannot be loaded, wrong bytes, a
    refused copy or a difference from the real scheduler; 2 bad input; 3 device or scheduler not available; 130
    interrupted.
    """
    if fuzz is not None:
        return _fuzz(fuzz, against, seed, models_given=bool(model or tokens), json_path=json_path, out=out, quiet=quiet)
    memory_bytes = parse_size(host_memory)
    budget_s, limit_bytes = parse_duration(budget), parse_size(memory_limit)
    from ecbench.kv_offload import HostLayout  # noqa: PLC0415 - keeps --help light
    from ecbench.measure.stages import StageClock, seconds_since_process_start  # noqa: PLC0415 - as above
    from ecbench.workflows.savings import exit_code_of, prepare_savings, run_savings  # noqa: PLC0415 - imports torch
    from ecbench.workflows.savings_copies import CopyMeasurement  # noqa: PLC0415 - as above
    from ecbench.workflows.savings_request import SavingsOptions  # noqa: PLC0415 - as above

    clock = StageClock(imports_s=seconds_since_process_start())
    options = SavingsOptions(
        models=tuple(model or ()),
        tokens=tuple(tokens or ()),
        policies=tuple(policy or ()),
        retention_intervals=tuple(retention_interval or ()),
        alignment_tokens=alignment_tokens,
        block_size=block_size,
        blocks_per_chunk=blocks_per_chunk,
        connector_block_size=connector_block_size,
        eagle=eagle,
        mtp=mtp,
        indexer=indexer,
        cache_dtype=cache_dtype,
        tensor_parallel=tensor_parallel,
        host_layout=None if replicated is None else HostLayout.REPLICATED if replicated else HostLayout.PER_RANK,
        host_memory_bytes=memory_bytes,
        prove=prove,
        measure=CopyMeasurement(budget_s=budget_s, memory_limit_bytes=limit_bytes, seed=seed) if measure else None,
        device=device,
        against=against,
        step_tokens=step_tokens,
    )
    progress = _progress(quiet=quiet)
    with clock.stage("prepare"):
        prepared = prepare_savings(options, progress)
    refuse_unwritable_targets(out, json_path)
    result = run_savings(prepared, clock, progress)
    code = exit_code_of(result)
    if result.cases:
        silent = quiet and code is ExitCode.OK
        publish_result(result, json_path, out, silent=silent, quiet=quiet, formats=REPORTS)
    if not result.complete:
        typer.echo(f"ecbench: {result.ended_by or 'interrupted'}; finished cases saved: {len(result.cases)}", err=True)
    return code


def _fuzz(
    requests: int,
    against: str | None,
    seed: int,
    *,
    models_given: bool,
    json_path: Path | None,
    out: Path,
    quiet: bool,
) -> ExitCode:
    from ecbench.measure.stages import StageClock, seconds_since_process_start  # noqa: PLC0415 - keeps --help light
    from ecbench.workflows.savings import exit_code_of  # noqa: PLC0415 - imports torch
    from ecbench.workflows.savings_against import open_scheduler  # noqa: PLC0415 - as above
    from ecbench.workflows.savings_fuzz import FuzzRun, check_fuzz_options, run_fuzz  # noqa: PLC0415 - as above

    name = check_fuzz_options(requests, against, models_given=models_given)
    refuse_unwritable_targets(out, json_path)
    progress = _progress(quiet=quiet)
    clock = StageClock(imports_s=seconds_since_process_start())
    with clock.stage("prepare"):
        scheduler = open_scheduler(name, progress)
    result = run_fuzz(FuzzRun(name, scheduler, requests, seed, out), clock, progress)
    code = exit_code_of(result)
    publish_result(result, json_path, out, silent=quiet and code is ExitCode.OK, quiet=quiet)
    if not result.complete:
        typer.echo("ecbench: interrupted; what was found is saved", err=True)
    return code


def _progress(*, quiet: bool) -> Callable[[str], None]:
    return (lambda _: None) if quiet else (lambda message: typer.echo(message, err=True))
