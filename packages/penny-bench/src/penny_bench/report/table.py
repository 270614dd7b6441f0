"""The table on the terminal."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from penny_bench.measure import DecodeResult
from penny_bench.report.rows import Row, rows
from penny_bench.stats import Summary


def print_result(result: DecodeResult, console: Console) -> None:
    """Print the rows of a result and what a reader must know about them."""
    plan, made = result.plan, rows(result)
    table = Table(title=f"Decode, {escape(result.server.model)}", title_justify="left")
    for head in (
        "streams",
        "tok/s, all",
        "95 % of mean",
        "tok/s, each",
        "tok/s, whole",
        "TTFT s",
        "prompt",
        "output",
    ):
        table.add_column(head, justify="right")
    table.add_column("failed", justify="right", style="red" if any(row.failures for row in made) else "")
    for row in made:
        table.add_row(*_cells(row))
    console.print(table)
    console.print(
        f"Median (range) of {plan.runs} runs after {plan.warmups} warm-up. all: tokens of all streams while "
        f"all decode; each: one stream after its first token; whole: with prefill and tail; TTFT: any token.",
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
    interval = "-"
    if row.aggregate and row.aggregate.low is not None and row.aggregate.high is not None:
        interval = f"{row.aggregate.low:.1f} to {row.aggregate.high:.1f}"
    return [
        str(row.concurrency),
        _spread(row.aggregate, 1),
        interval,
        _spread(row.stream, 1),
        _spread(row.whole, 1),
        _spread(row.ttft, 3),
        f"{row.prompt_tokens.median:.0f}" if row.prompt_tokens else "-",
        f"{row.output_tokens.median:.0f}" if row.output_tokens else "-",
        str(sum(row.failures.values())),
    ]


def _spread(summary: Summary | None, digits: int) -> str:
    if summary is None:
        return "-"
    return f"{summary.median:.{digits}f} ({summary.minimum:.{digits}f}-{summary.maximum:.{digits}f})"
