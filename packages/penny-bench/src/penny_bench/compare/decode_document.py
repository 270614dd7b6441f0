"""Reads a document of `penny-bench decode`. Its rows are of the workload `decode`, phases `C1`, `C8`, ..."""

from __future__ import annotations

from typing import Any

from penny_bench.compare.value import Metric, Value

METRICS = {
    metric.key: metric
    for metric in (
        Metric("aggregate", "all", "tok/s", "higher"),
        Metric("stream", "each", "tok/s", "higher"),
        Metric("whole", "whole", "tok/s", "higher"),
        Metric("ttft", "TTFT", "s", "lower"),
    )
}
HEADLINES = ("aggregate", "ttft")

CACHED_REFUSED = 0.5
"""Share of a prompt from the server's cache from which a TTFT is not cold."""
CACHED_LABELLED = 0.05
"""Share above which it is told; below are the first tokens of a chat template, equal in every prompt."""


def read_decode(read: dict[str, Any]) -> dict[str, Any]:
    """The fields of a `Document`."""
    plan = read["plan"]
    tokens = int(plan["tokens"])
    values: dict[tuple[str, str], Value] = {}
    prompts: dict[str, float] = {}
    faults: list[tuple[str, str]] = []
    notes: list[tuple[str, str]] = []
    for row in sorted(read["summary"], key=lambda row: int(row["concurrency"])):
        streams = int(row["concurrency"])
        phase = f"C{streams}"
        for key, metric in METRICS.items():
            median = row[key] and float(row[key]["median"])
            values[phase, key] = Value(metric, median, streams, headline=key in HEADLINES)
        if row["prompt_tokens"]:
            prompts[phase] = float(row["prompt_tokens"]["median"])
        if failed := sum(row["failures"].values()):
            faults.append((phase, f"{failed} failed."))
        least = row["output_tokens"] and float(row["output_tokens"]["minimum"])
        if least is not None and least < tokens:
            faults.append((phase, f"a stream ended after {least:.0f} of {tokens} tokens."))
        if (cached := _cached(read["groups"], streams)) > CACHED_LABELLED:
            sentence = f"{cached:.0%} of a prompt came from the server's cache."
            (faults if cached > CACHED_REFUSED else notes).append((phase, sentence))
    return {
        "workload": "decode",
        "alike": {
            "the model": str(read["server"]["model"]),
            "tokens": str(tokens),
            "prompt tokens": str(int(plan["prompt_tokens"])),
            "ignore_eos taken by the server": str(bool(read["server"]["extensions"])),
        },
        "told": {
            "runs in a restart": str(int(plan["runs"])),
            "the client": ", ".join(str(value) for value in read["client"].values()),
        },
        "values": values,
        "prompts": prompts,
        "faults": faults,
        "notes": notes,
    }


def _cached(groups: list[dict[str, Any]], streams: int) -> float:
    """Largest share of a prompt that came from the server's cache."""
    return max(
        (
            (record["cached_tokens"] or 0) / (record["prompt_tokens"] or 1)
            for group in groups
            if group["concurrency"] == streams and not group["warmup"]
            for record in group["records"]
            if record["failure"] is None
        ),
        default=0.0,
    )
