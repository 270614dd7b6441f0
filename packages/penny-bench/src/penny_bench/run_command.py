"""`penny-bench run`, `workloads` and `schema`."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from penny_bench.client.tokenizer import load_tokenizer
from penny_bench.errors import BenchError
from penny_bench.evidence import schema_text
from penny_bench.load import FORMS, RunPlan, Slo, Trace, parse_load
from penny_bench.once import Target, run_once
from penny_bench.report import print_run
from penny_bench.resume import check_resumable, read_partial
from penny_bench.save import check_target, save
from penny_bench.workload import Workload, parse_changes, read_workload, shipped

CONTAMINATED = 4
"""Exit status of a run in which a prefix cache took part."""
LOAD, TOKENS, WARMUPS = "closed:concurrency=1", 128, 4
"""Of a run without a workload that names no others."""


def run(
    url: Annotated[str, typer.Option(help="Address of the server, with or without its /v1.")],
    workload: Annotated[
        str | None, typer.Option(help="A workload: a name of penny-bench workloads, or a TOML file.")
    ] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="Replace a setting of the workload: tokens=64.")
    ] = None,
    load: Annotated[str, typer.Option(help=f"Without a workload, when requests are sent: {FORMS}.")] = LOAD,
    requests: Annotated[
        int | None, typer.Option(help="Send at most so many; else 100, or a trace whole.")
    ] = None,
    duration: Annotated[str | None, typer.Option(help="Send none later than this: 60s, 5m, 1h.")] = None,
    tokens: Annotated[int, typer.Option(help="Tokens that each request asks for.")] = TOKENS,
    prompt_tokens: Annotated[int, typer.Option(help="Length of the prompts, about.")] = TOKENS,
    warmups: Annotated[int, typer.Option(help="Requests sent before, together, and kept apart.")] = WARMUPS,
    slo: Annotated[
        str | None, typer.Option(help="Limits in s for goodput: ttft=0.5,ttft_content=2,tpot=0.05,e2e=10.")
    ] = None,
    same_prompt: Annotated[
        bool, typer.Option("--same-prompt", help="Send one prompt over and over.")
    ] = False,
    random_prompts: Annotated[
        bool, typer.Option("--random-prompts", help="Send random words in place of real text.")
    ] = False,
    allow_cached: Annotated[
        bool, typer.Option("--allow-cached", help="Status 0 although a prefix cache took part.")
    ] = False,
    cached_limit: Annotated[int, typer.Option(help="Cached prompt tokens that a template may share.")] = 32,
    floor: Annotated[
        list[str] | None,
        typer.Option(help="Best value that is possible, for the share reached: C1/stream=220 or ttft=0.1."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Model name; else the first that the server lists.")
    ] = None,
    api_key: Annotated[str | None, typer.Option(envvar="OPENAI_API_KEY", help="Bearer token.")] = None,
    timeout: Annotated[float, typer.Option(help="Longest silence of the server, s.")] = 120.0,
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            help="For servers without usage: a tokenizer.json that counts, labelled as an estimate."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of arrivals and prompts; else a new one.")] = None,
    unwatched: Annotated[
        bool, typer.Option("--unwatched", help="Do not read the server's counters meanwhile.")
    ] = False,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with this partial result; give the same options again.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the evidence to this file.")] = None,
) -> None:
    """Send a load or a workload and measure every request; keep all evidence in one JSON document.

    Exit status: 0 measured, 1 measured but some requests or checks failed, 2 nothing measured, 4 a prefix
    cache took part, 130 interrupted (what was measured is written, marked partial).
    """
    check_target(json_file)
    if not timeout > 0:
        raise BenchError(f"--timeout is {timeout:g}; give seconds above 0.")
    floors = parse_floors(floor or [])
    earlier = read_partial(resume) if resume else None
    if earlier and seed is None:
        seed = earlier["plan"]["seed"]
    number = secrets.randbelow(1_000_000) if seed is None else seed
    what: RunPlan | Workload
    if workload:
        given = {
            "--load": load != LOAD,
            "--requests": requests is not None,
            "--duration": duration is not None,
            "--tokens": tokens != TOKENS,
            "--prompt-tokens": prompt_tokens != TOKENS,
            "--warmups": warmups != WARMUPS,
            "--slo": slo is not None,
            "--same-prompt": same_prompt,
            "--random-prompts": random_prompts,
        }
        if idle := [name for name, is_given in given.items() if is_given]:
            raise BenchError(
                f"{' and '.join(idle)} would do nothing: a workload has its own settings; change them with --set "
                f"(penny-bench workloads {workload} shows them)."
            )
        what = read_workload(workload, parse_changes(change or []))
    elif change:
        raise BenchError("--set is for a workload; name one with --workload.")
    else:
        timing = parse_load(load)
        seconds = None if duration is None else parse_duration(duration)
        endless = requests is None and seconds is None and not isinstance(timing, Trace)
        what = RunPlan(
            load=timing,
            requests=100 if endless else requests,
            duration=seconds,
            tokens=tokens,
            prompt_tokens=prompt_tokens,
            warmups=warmups,
            seed=number,
            same_prompt=same_prompt,
            random_prompts=random_prompts,
            cached_limit=cached_limit,
            slo=Slo.parse(slo) if slo else None,
        )
    if earlier:
        check_resumable(earlier, what, number)
    target = Target(url, model, api_key, timeout, load_tokenizer(tokenizer) if tokenizer else None)
    document = run_once(
        target,
        what,
        number,
        cached_limit=cached_limit,
        floors=floors,
        earlier=earlier,
        watch_server=not unwatched,
        show=Console(stderr=True),
    )
    print_run(document, Console())
    if json_file:
        save(json_file, document)
    _finish(document, allow_cached)


def workloads(
    name: Annotated[str | None, typer.Argument(help="Show this one whole.")] = None,
) -> None:
    """List the workloads that come with penny-bench, or show one."""
    if name:
        found = read_workload(name).document()
        for key, value in found.items():
            typer.echo(f"{key}: {value}")
        return
    table = Table(box=None, pad_edge=False)
    for head in ("workload", "kind", "what it does"):
        table.add_column(head)
    for each in shipped():
        found = read_workload(each).document()
        table.add_row(each, found["kind"], found["title"])
    Console().print(table)


def schema() -> None:
    """Print the JSON Schema of the evidence of a run."""
    print(schema_text(), end="")


def parse_duration(text: str) -> float:
    """Seconds of `90`, `90s`, `1.5m` or `1h`.

    Raises:
        BenchError: it is none of these.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h|)", text)
    if not found:
        raise BenchError(f"--duration is {text!r}; give a number with s, m or h, such as 60s.")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]


def parse_floors(pairs: list[str]) -> dict[str, float]:
    """Stated best values, by metric.

    Raises:
        BenchError: a pair is not `metric=number` with a number above 0.
    """
    floors: dict[str, float] = {}
    for pair in pairs:
        name, _, text = pair.rpartition("=")
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if not name or not 0 < value < float("inf"):
            raise BenchError(f"--floor is {pair!r}; write metric=number, such as C1/stream=220.")
        floors[name] = value
    return floors


def _finish(document: dict[str, Any], allow_cached: bool) -> None:
    if document["status"] == "partial":
        raise typer.Exit(130)
    if document["cache"]["verdict"] == "contaminated" and not allow_cached:
        raise typer.Exit(CONTAMINATED)
    if document["summary"]["errors"] or (document["checks"] or {}).get("failed"):
        raise typer.Exit(1)
