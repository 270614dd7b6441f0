"""Puts what the GPU scripts left into one result file, and prints its rows for docs/results/index.md.

    python speculation_results.py FOLDER... --out docs/results/gpu-speculation.json > rows.md

Reads from the folders what is there: CASE.json of gpu_speculation.sh, xqa.json of xqa_verify.py, and of
gpu_checkpoints.sh tokens-CASE.json (made of asked-CASE.json by ``same_tokens.py explain``), said-CASE.json and
seams-CASE.json. A server's readings are paired with those of another in the order in which they were taken; a ratio is
the geometric mean over the pairs, with the least and the largest. Servers that did not share a GPU at the same time are
not compared. Exit code 1 when a bar is missed or could not be looked at.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Json = dict[str, Any]
PAIRS = {
    "nextn_27b": ("27b-nextn", "27b"),
    "nextn_27b_stock": ("27b-nextn@stock", "27b@stock"),
    "dflash_27b": ("27b-dflash", "27b"),
    "dflash_27b_stock": ("27b-dflash@stock", "27b@stock"),
    "nextn_next": ("next-nextn", "next"),
    "frspec_next": ("next-frspec", "next-nextn"),
    "frspec_27b": ("27b-frspec", "27b-nextn"),
    "nextn_frspec_27b": ("27b-frspec", "27b"),
} | {
    f"ours_{name.replace('-', '_')}": (name, f"{name}@stock")
    for name in ("27b", "27b-nextn", "27b-frspec", "27b-dflash", "next", "next-nextn", "next-frspec")
}
"""What is divided by what."""
LABELS = {
    "nextn_27b": "27B: NEXTN over none",
    "nextn_27b_stock": "27B on stock: NEXTN over none",
    "dflash_27b": "27B: DFlash2 over none",
    "dflash_27b_stock": "27B on stock: DFlash2 over none",
    "nextn_next": "Flash-Next-12l: NEXTN over none",
    "frspec_27b": "27B: NEXTN with a map of 65,536 rows over NEXTN",
    "nextn_frspec_27b": "27B: NEXTN with a map of 65,536 rows over none",
    "frspec_next": "Flash-Next-12l: NEXTN with a map of 65,536 rows over NEXTN",
}
BARS = (
    ("NEXTN over none, 27B, one stream: at least 2.1", "nextn_27b", 2.1),
    (
        "DFlash2 beside its stock, one stream: no slower (0.98 allows for the readings' spread)",
        "ours_27b_dflash",
        0.98,
    ),
    ("NEXTN beside its stock, 27B, one stream: no slower (0.98)", "ours_27b_nextn", 0.98),
    ("a map of 65,536 rows over NEXTN alone, one stream: faster", "frspec_next", 1.0),
)


def plain(name: str) -> str:
    """A name that can be a place in the file."""
    return re.sub(r"\W+", "_", name)


def ratio(upper: Json, lower: Json) -> Json | None:
    """Paired ratios of two servers' rates; None if they were not measured beside each other."""
    beside = upper.get("on_the_same_gpu", [])
    if lower["case"] not in beside or beside != lower.get("on_the_same_gpu"):
        return None
    found: Json = {}
    for streams in ("c1", "c4"):
        pairs = list(zip(upper["readings"][streams], lower["readings"][streams], strict=False))
        if not pairs:
            return None
        ratios = [a["tokens_per_s"] / b["tokens_per_s"] for a, b in pairs]
        found[streams] = statistics.geometric_mean(ratios)
        found[f"{streams}_range"] = [min(ratios), max(ratios)]
        found["pairs"] = len(pairs)
    return found


def server(case: Json) -> Json:
    """A case's row: medians and all readings."""
    found: Json = {
        key: case[key] for key in ("case", "ours", "ready_s", "arguments", "environment") if key in case
    }
    for streams in ("c1", "c4"):
        rates = [reading["tokens_per_s"] for reading in case["readings"][streams]]
        if rates:
            found |= {f"{streams}_tokens_per_s": statistics.median(rates), f"{streams}_readings": rates}
    verified = [r["tokens_per_verify"] for r in case["readings"]["c1"] if "tokens_per_verify" in r]
    if verified:
        found["tokens_per_verify"] = statistics.mean(verified)
        found["server_accept_length"] = statistics.mean(
            r["server_accept_length"] for r in case["readings"]["c1"]
        )
    told = (
        "server",
        "distinct_of_64_tokens",
        "seams_active",
        "seams_missing",
        "log_says",
        "error",
        "on_the_same_gpu",
    )
    return found | {key: case[key] for key in told if key in case}


def xqa(document: Json) -> Json:
    """The kernel cases as a table, and what they come to."""
    rows, tables = document["cases"], []
    for row in rows:
        checks = [check for check in row.get("checks", []) if check["mask"] == "chain"]
        errors = [check["error"] for check in checks if check["error"] is not None]
        times = [row.get(key) for key in ("xqa_us", "triton_us", "sdpa_us", "floor_us")]
        other = [check["error"] for check in row.get("checks", []) if check["mask"] == "other"]
        whole = max(errors) if errors and len(errors) == len(checks) else None
        kind = [row[key] for key in ("kv", "page", "width", "batch", "context", "passes")]
        tables.append([*kind, whole, other[0] if other else None, *times])
    found: Json = {key: document[key] for key in ("command", "gpu", "versions", "copy_gb_per_s", "left_out")}
    found |= {"cases": len(rows), "passed": sum(row["passes"] for row in rows)}
    found["failed"] = [row for row in rows if not row["passes"]]
    for kv in ("bf16", "fp8"):
        mine = [row for row in rows if row["kv"] == kv]
        timed = [row for row in mine if "xqa_us" in row]
        worst = [
            c["error"]
            for r in mine
            for c in r.get("checks", [])
            if c["mask"] == "chain" and c["error"] is not None
        ]
        if worst:
            found[f"{kv}_worst_error"] = max(worst)
        for context in sorted({row["context"] for row in timed}):
            at = [row for row in timed if row["context"] == context]
            shares = [row["share_of_floor"] for row in at]
            faster = [row["triton_us"] / row["xqa_us"] for row in at if "triton_us" in row]
            key = f"{kv}_{context}"
            found[key] = {"share_of_floor": [min(shares), statistics.median(shares), max(shares)]}
            if faster:
                found[key]["times_faster_than_triton"] = [min(faster), statistics.median(faster), max(faster)]
    head = ["kv", "page", "width", "batch", "context", "passes", "error", "error of other masks"]
    return found | {"columns": [*head, "xqa_us", "triton_us", "sdpa_us", "floor_us"], "table": tables}


def checkpoint(folder: Path, name: str) -> Json:
    """A tiny server's tokens against transformers, and what it said."""
    found: Json = json.loads((folder / f"tokens-{name}.json").read_text())
    for kind in ("said", "seams"):
        file = folder / f"{kind}-{name}.json"
        if file.exists():
            told = json.loads(file.read_text())
            found[kind] = told if kind == "said" else [s["name"] for s in told if s["state"] == "active"]
    metrics = folder / f"metrics-{name}.txt"
    if metrics.exists():
        lines = [line.rpartition(" ") for line in metrics.read_text().splitlines()]
        found["metrics"] = {plain(key).strip("_"): float(value) for key, _, value in lines}
    parted = [row for row in found["rows"] if not row["same"]]
    found["worst"] = max((row["gap"] / row["rounding"] for row in parted), default=0.0)
    return found


def merge(folders: list[Path]) -> Json:
    """The whole document."""
    cases: dict[str, Json] = {}
    document: Json = {
        "what": "speculation on full-size shapes with weights of noise and simulated acceptance, XQA verification, and "
        "the tiny checkpoints with their drafts, on a GPU",
        "command": "bash packages/penny-server/benchmarks/gpu_speculation.sh OUT CASE...",
    }
    tiny: Json = {}
    for folder in folders:
        for file in sorted(folder.glob("*.json")):
            if file.name == "xqa.json":
                document["xqa"] = xqa(json.loads(file.read_text()))
            elif file.name.startswith("tokens-"):
                tiny[plain(file.stem.removeprefix("tokens-"))] = checkpoint(
                    folder, file.stem.removeprefix("tokens-")
                )
            elif "readings" in (found := json.loads(file.read_text())):
                cases[found["case"]] = found
    measured = {name: case for name, case in cases.items() if case["readings"]["c1"]}
    for key in ("gpu", "versions", "tokens", "prompt_tokens"):
        told = {json.dumps(case[key]) for case in measured.values()}
        if told:
            document[key] = (
                json.loads(told.pop()) if len(told) == 1 else [json.loads(t) for t in sorted(told)]
            )
    document["cases"] = {plain(name): server(case) for name, case in cases.items()}
    ratios = {
        key: found
        for key, (a, b) in PAIRS.items()
        if a in measured and b in measured and (found := ratio(measured[a], measured[b]))
    }
    document |= {"ratios": ratios, "tiny": tiny}
    document["bars"] = [
        {"bar": text, "wanted": wanted, "found": ratios[key]["c1"], "met": ratios[key]["c1"] >= wanted}
        if key in ratios
        else {"bar": text, "wanted": wanted, "met": None}
        for text, key, wanted in BARS
    ]
    return document


def lines(document: Json) -> Iterator[str]:
    """The rows of the results page."""
    yield from (
        "| Decode rate, tok/s | One stream, four together | Accepted, server's count |",
        "|---|---|---|",
    )
    for case in document["cases"].values():
        if "c1_tokens_per_s" in case and "c4_tokens_per_s" in case:
            accepted = f"{case['tokens_per_verify']:.2f}" if "tokens_per_verify" in case else "none drafted"
            yield f"| {case['case']} | {case['c1_tokens_per_s']:.1f}, {case['c4_tokens_per_s']:.1f} | {accepted} |"
    yield from ("", "| In the file | Value | Place |", "|---|---|---|")
    for key, case in document["cases"].items():
        for what, place in (("one stream", "c1"), ("four streams", "c4")):
            if f"{place}_tokens_per_s" in case:
                value = case[f"{place}_tokens_per_s"]
                yield f"| {case['case']}, {what} | {value:.1f} | `cases.{key}.{place}_tokens_per_s` |"
        if "tokens_per_verify" in case:
            yield f"| {case['case']}, accepted | {case['tokens_per_verify']:.2f} | `cases.{key}.tokens_per_verify` |"
    for key, found in document["ratios"].items():
        label = LABELS.get(key, f"{PAIRS[key][0]}: ours over stock")
        for what, place in (("one stream", "c1"), ("four streams", "c4")):
            low, high = found[f"{place}_range"]
            yield f"| {label}, {what} | {found[place]:.3f} | `ratios.{key}.{place}` |"
            yield f"| least and largest of its pairs | {low:.3f}, {high:.3f} | `ratios.{key}.{place}_range` |"
    for key, found in document["tiny"].items():
        yield f"| {key}: prompts | {found['prompts']} | `tiny.{key}.prompts` |"
        yield f"| {key}: same tokens | {found['same']} | `tiny.{key}.same` |"
        explained = found["explained_by_rounding"]
        yield f"| {key}: explained by rounding | {explained} | `tiny.{key}.explained_by_rounding` |"
        yield f"| {key}: same when cached | {found['same_when_cached']} | `tiny.{key}.same_when_cached` |"
        switches = found.get("metrics", {}).get("penny_spec_width_switches_total")
        if switches is not None:
            place = f"tiny.{key}.metrics.penny_spec_width_switches_total"
            yield f"| {key}: changes of the width | {switches:.0f} | `{place}` |"
        if "same_four_at_once" in found:
            yield f"| {key}: same, four at once | {found['same_four_at_once']} | `tiny.{key}.same_four_at_once` |"
            explained = found["explained_four_at_once"]
            yield f"| {key}: explained, four at once | {explained} | `tiny.{key}.explained_four_at_once` |"
    if "xqa" in document:
        found = document["xqa"]
        yield f"| XQA: cases | {found['cases']} | `xqa.cases` |"
        yield f"| XQA: passed | {found['passed']} | `xqa.passed` |"
        for key, value in found.items():
            if key.endswith("_worst_error"):
                yield f"| XQA, {key.partition('_')[0]}: worst error | {value:.5f} | `xqa.{key}` |"
            elif isinstance(value, dict) and "share_of_floor" in value:
                kv, _, context = key.partition("_")
                label = f"XQA, {kv}, {int(context):,} tokens before"
                for what, name in (
                    ("share of the floor", "share_of_floor"),
                    ("times faster than stock's Triton kernel", "times_faster_than_triton"),
                ):
                    if name not in value:
                        continue
                    shown = ", ".join(f"{number:.2f}" for number in value[name])
                    yield f"| {label}: {what}, least, median, most | {shown} | `xqa.{key}.{name}` |"


def main() -> int:
    """Writes the file and prints the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    document = merge(args.folders)
    args.out.write_text(json.dumps(document, indent=1) + "\n")
    print("\n".join(lines(document)))
    for bar in document["bars"]:
        state = {True: "met", False: "MISSED", None: "not looked at"}[bar["met"]]
        print(f"{state}: {bar['bar']}; found {bar.get('found')}", file=sys.stderr)
    return 0 if all(bar["met"] for bar in document["bars"]) else 1


if __name__ == "__main__":
    sys.exit(main())
