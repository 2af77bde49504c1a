"""``ecbench dsv4-swa-savings``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ecbench.cli.common import (
    DEFAULT_OUT,
    STDOUT,
    JsonOption,
    OutOption,
    QuietOption,
    SeedOption,
    printing,
    refuse_unwritable_targets,
    reports_errors,
    write_json,
)
from ecbench.core.durations import parse_duration
from ecbench.core.errors import ExitCode
from ecbench.core.records import to_json
from ecbench.core.units import parse_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecbench.core.savings_records import SavingsResult


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
            "--policy", metavar="NAME,...", help="pr (the skip of vLLM #43142), vllm-0.33, or both: the default."
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
    tensor_parallel: Annotated[int, typer.Option("--tp", metavar="N", help="Tensor-parallel ranks.")] = 1,
    replicated: Annotated[
        bool, typer.Option("--replicated/--per-rank", help="One copy in a host slot, or one per rank.")
    ] = False,
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
    seed: SeedOption = 0,
    json_path: JsonOption = None,
    out: OutOption = DEFAULT_OUT,
    quiet: QuietOption = False,
) -> ExitCode:
    """Show which KV chunks are offloaded with and without the alignment skip, prove that every hit loads, and measure.

    Exit codes: 0 ok, what is lost or not used included; 1 an advertised prefix that cannot be loaded, wrong bytes or a
    refused copy; 2 bad input; 3 device not available; 130 interrupted.
    """
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
        host_layout=HostLayout.REPLICATED if replicated else HostLayout.PER_RANK,
        host_memory_bytes=memory_bytes,
        prove=prove,
        measure=CopyMeasurement(budget_s=budget_s, memory_limit_bytes=limit_bytes, seed=seed) if measure else None,
        device=device,
    )
    prepared = prepare_savings(options)
    refuse_unwritable_targets(out, json_path)
    result = run_savings(prepared, clock, _progress(quiet=quiet))
    code = exit_code_of(result)
    if result.cases:
        _publish(result, code, json_path, out, quiet=quiet)
    if not result.complete:
        typer.echo(f"ecbench: {result.ended_by or 'interrupted'}; finished cases saved: {len(result.cases)}", err=True)
    return code


def _progress(*, quiet: bool) -> Callable[[str], None]:
    return (lambda _: None) if quiet else (lambda message: typer.echo(message, err=True))


def _publish(result: SavingsResult, code: ExitCode, json_path: Path | None, out: Path, *, quiet: bool) -> None:
    """Prints first and writes then: a full disk must not cost the numbers on the screen."""
    from ecbench.report.descriptions.savings import describe_savings  # noqa: PLC0415 - keeps --help light
    from ecbench.report.formats.document_console import print_document  # noqa: PLC0415 - imports rich

    if json_path != STDOUT and not (quiet and code is ExitCode.OK):
        with printing() as console:
            print_document(describe_savings(result), console)
    if json_path is not None:
        write_json(json_path, result)
    _save(result, out, quiet=quiet)


def _save(result: SavingsResult, out: Path, *, quiet: bool) -> None:
    from ecbench.report.descriptions.savings import describe_savings  # noqa: PLC0415 - keeps --help light
    from ecbench.report.files import write_result_files  # noqa: PLC0415 - as above
    from ecbench.report.formats.document_markdown import render_document_markdown  # noqa: PLC0415 - as above
    from ecbench.report.formats.html import Page, render_html  # noqa: PLC0415 - imports jinja2
    from ecbench.report.plots.rendering import render_png, render_svg  # noqa: PLC0415 - imports matplotlib
    from ecbench.report.plots.saved_by_block_size import draw_saved_by_block_size  # noqa: PLC0415 - as above
    from ecbench.report.plots.stored_chunks import draw_stored_chunks  # noqa: PLC0415 - as above

    document, drawings = describe_savings(result), (draw_stored_chunks(result), draw_saved_by_block_size(result))
    contents = {
        ".json": to_json(result),
        ".md": render_document_markdown(document).encode(),
        ".html": render_html([Page(document, drawings)]).encode(),
    }
    for drawing in drawings:
        contents[f"-{drawing.name}.svg"] = render_svg(drawing)
        contents[f"-{drawing.name}.png"] = render_png(drawing)
    stem = f"{result.kind}-{result.started_at.replace(':', '').replace('+0000', 'Z')}"
    paths = write_result_files(out, stem, contents)
    if not quiet:
        typer.echo(f"reports: {', '.join(map(str, paths))}", err=True)
