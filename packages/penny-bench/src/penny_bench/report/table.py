"""The table on the terminal."""

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from penny_bench.measure import DecodeResult
from penny_bench.report.rows import Row, rows
from penny_bench.stats import Summary

HEADS = ("streams", "all", "range", "95 %", "each", "whole", "TTFT", "prompt", "failed")


def print_result(result: DecodeResult, console: Console) -> None:
    """Print the rows of a result and what a reader must know about them."""
    plan, made = result.plan, rows(result)
    title = f"Decode, {escape(result.server.model)}, {plan.tokens} tokens a stream, {plan.runs} runs"
    table = Table(
        title=title,
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
        pad_edge=False,
    )
    for head in HEADS:
        table.add_column(head, justify="right", no_wrap=True)
    table.columns[-1].style = "red" if any(row.failures for row in made) else ""
    for row in made:
        table.add_row(*_cells(row))
    console.print(table)
    console.print(
        f"Medians, tok/s and s; range and 95 % interval of the mean over runs, {plan.warmups} warm-up apart."
        f" all: every stream's tokens while all decode; each: one stream after its first token; whole: with "
        f"prefill and tail; TTFT: first token of any kind; prompt: tokens.",
        style="dim",
    )
    for line in notes(result, made):
        console.print(escape(line), style="yellow")


def notes(result: DecodeResult, made: list[Row]) -> list[str]:
    """Sentences about whatever makes the numbers less than they seem."""
    lines = []
    if not result.server.extensions:
        lines.append(
            "The server refused ignore_eos and running usage: streams may end early and the first event of a "
            "stream is taken for one token."
        )
    for row in made:
        name = f"{row.concurrency} stream{'s' if row.concurrency > 1 else ''}:"
        lines += [f"{name} {count} failed. {message}" for message, count in row.failures.items()]
        if row.aggregate is None and not row.failures:
            lines.append(f"{name} no rate, since there was no time in which all streams were decoding.")
        if row.output_tokens and row.output_tokens.minimum < result.plan.tokens:
            lines.append(
                f"{name} a stream ended after {row.output_tokens.minimum:.0f} of {result.plan.tokens} tokens."
            )
        if (
            row.cached_tokens
            and row.prompt_tokens
            and row.cached_tokens.maximum > row.prompt_tokens.maximum / 2
        ):
            lines.append(
                f"{name} {row.cached_tokens.maximum:.0f} prompt tokens came from the "
                f"server's cache; TTFT is not cold."
            )
    return lines


def _cells(row: Row) -> list[str]:
    rate = row.aggregate
    between = interval = "-"
    if rate:
        between = f"{_short(rate.minimum)}-{_short(rate.maximum)}"
    if rate and rate.low is not None and rate.high is not None:
        interval = f"{_short(rate.low)}..{_short(rate.high)}"
    return [
        str(row.concurrency),
        _median(rate),
        between,
        interval,
        _median(row.stream),
        _median(row.whole),
        f"{row.ttft.median:.3f}" if row.ttft else "-",
        f"{row.prompt_tokens.median:.0f}" if row.prompt_tokens else "-",
        str(sum(row.failures.values())),
    ]


def _median(summary: Summary | None) -> str:
    return "-" if summary is None else f"{summary.median:.{1 if summary.median < 1000 else 0}f}"


def _short(value: float) -> str:
    return f"{value:.1f}" if abs(value) < 100 else f"{value:.0f}"
