"""A run on the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

LATENCIES = (
    ("ttft", "TTFT, any token, ms"),
    ("ttft_content", "TTFT, content, ms"),
    ("tpot", "TPOT, ms"),
    ("itl", "ITL, ms"),
    ("stalls", "pause between events, ms"),
    ("e2e", "E2E, ms"),
)
SLOW = 0.05
"""Lag of the event loop, 99th percentile, from which times are no longer to be trusted, s."""

COLUMNS = ("mean", "p50", "p90", "p95", "p99", "maximum")


def print_run(document: dict[str, Any], console: Console) -> None:
    """Print the summary of a document of `penny-bench run`."""
    summary, client, cache = document["summary"], document["client"], document["cache"]
    if document["workload"]:
        _print_workload(document, console)
    else:
        _print_latencies(document, console)
    lines = [
        f"{summary['succeeded']} of {summary['requests']} requests succeeded in {summary['seconds']:.2f} s"
        + "".join(f"; {count} failed: {kind}" for kind, count in summary["errors"].items())
    ]
    if summary["output_rate"] is not None:
        lines.append(
            f"{summary['request_rate']:.2f} requests/s, {summary['output_rate']:.1f} tokens/s, "
            f"{summary['peak_output_rate']:.1f} in the busiest second"
        )
    if summary["good"] is not None:
        rate = "" if summary["goodput"] is None else f": goodput {summary['goodput']:.2f} requests/s"
        lines.append(f"{summary['good']} met the objectives{rate}")
    lines.append(_own(client))
    if client["loop_lag"] and client["loop_lag"]["p99"] > SLOW:
        lines.append(
            "This client or its machine was too busy: events closer together than the event loop was late may "
            "count as one, and through TLS or a proxy times are off by as much. Send less, or measure from a machine "
            "with nothing else to do."
        )
    lines.append(_cache(cache))
    if document["server"]["extensions"] is False:
        lines.append("The server refused ignore_eos and running usage counts: answers may end early.")
    lines += document["notes"]
    if document["status"] == "partial":
        lines.append("Interrupted: what was measured until then. Go on with --resume and the --json file.")
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _print_latencies(document: dict[str, Any], console: Console) -> None:
    summary = document["summary"]
    table = Table(title=escape(f"{document['server']['model']}, {_load(document['plan']['load'])}"))
    table.add_column("")
    for name in COLUMNS:
        table.add_column({"maximum": "max"}.get(name, name), justify="right")
    for key, label in LATENCIES:
        if values := summary[key]:
            table.add_row(label, *(f"{1000 * values[name]:.2f}" for name in COLUMNS))
    console.print(table)


def _print_workload(document: dict[str, Any], console: Console) -> None:
    work, metrics = document["workload"], document["metrics"]
    shared = any(metric["share"] is not None for metric in metrics)
    table = Table(title=escape(f"{document['server']['model']}, {work['name']}: {work['title']}"))
    for head in ("phase", "", "median", "least", "most", "unit", "n", *(["floor %"] if shared else [])):
        table.add_column(head, justify="left" if head in ("phase", "", "unit") else "right")
    for metric in metrics:
        values = metric["values"]
        cells = [metric["phase"] or "all", metric["label"]]
        cells += [f"{value:.4g}" for value in (metric["value"], min(values), max(values))]
        cells += [metric["unit"], str(metric["n"])]
        if shared:
            cells.append("" if metric["share"] is None else f"{100 * metric['share']:.0f}")
        table.add_row(*map(escape, cells))
    console.print(table)
    if changed := work["changed"]:
        console.print(
            f"Settings other than in the workload: {', '.join(f'{k} = {v}' for k, v in changed.items())}.",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    if checks := document["checks"]:
        _print_checks(checks, console)


def _print_checks(checks: dict[str, Any], console: Console) -> None:
    points = "" if checks["of"] is None else f", {checks['score']:g} of {checks['of']:g} points"
    waiting = f", {checks['open']} for a person to judge" if checks["open"] else ""
    console.print(f"{checks['passed']} of {checks['total']} checks passed{points}{waiting}", highlight=False)
    for row in checks["rows"]:
        if row["passed"] is False:
            text = f"failed: {row['case']}: {row['name']}" + (f" ({row['detail']})" if row["detail"] else "")
            console.print(text, markup=False, highlight=False, soft_wrap=True, style="yellow")


def _load(load: dict[str, Any]) -> str:
    return f"{load['kind']} " + ", ".join(f"{key} {value}" for key, value in load.items() if key != "kind")


def _own(client: dict[str, Any]) -> str:
    parts = [f"{client['cores']:.2f} cores"]
    for key, label in (("lateness", "requests sent late by"), ("loop_lag", "event loop late by")):
        if values := client[key]:
            parts.append(f"{label} {1000 * values['p50']:.2f} ms (p99 {1000 * values['p99']:.2f})")
    return "The client's own cost: " + ", ".join(parts)


def _cache(cache: dict[str, Any]) -> str:
    if cache["verdict"] == "unknown":
        return "Prefix cache: the server does not report cached tokens, so whether one took part is unknown."
    if cache["verdict"] == "intended":
        return f"Prefix cache: meant to take part; {cache['total']} prompt tokens came from it."
    if cache["verdict"] == "clean":
        return f"Prefix cache: took no part (at most {cache['most']} cached tokens in a prompt)."
    return (
        f"Prefix cache: CONTAMINATED. {cache['above']} requests had more than {cache['limit']} cached prompt "
        f"tokens, up to {cache['most']}: prefill times are not those of a cold server."
    )
