"""Draws from a server at temperature 1, top-k 4, and compares the answers with transformers' exact probabilities.

    python sampling_lossless.py --url http://127.0.0.1:8001 --name tiny-27b-nextn --out result.json [--draws 20000]

The law of an answer of five tokens is the product of transformers' conditional probabilities in float32, each over the
four most probable tokens: 4^5 cells at most. Cells that expect fewer than ``LEAST`` answers are merged in the order of
their probability. One chi-square test a prompt; the p-values of a file's tests are corrected by Holm's method.

Start it in float32: ``penny serve PROFILE --device cpu --set dtype=float32``. Each answer has a seed of its own,
the numbers from 0 on, and ``--out`` is written after each request: the same command goes on where it was stopped.
A file may hold several servers, one ``--name`` each.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import torch
from scipy.stats import chi2
from transformers import AutoModelForImageTextToText, AutoTokenizer

from penny_models import tiny

PROMPTS = ("The ferry left the harbour before sunrise, and", "for i in range(10):\n    print(")
TOP_K, TOKENS = 4, 5
LEAST = 10.0
"""Answers that a cell must expect."""
TOGETHER = 250
"""Answers of one request."""

Law = Mapping[tuple[int, ...], float]


@torch.inference_mode()
def exact(model: Any, ids: Sequence[int], tokens: int = TOKENS) -> Law:
    """The probability of each answer of ``tokens`` tokens after ``ids``, at temperature 1 with top-k ``TOP_K``."""
    law: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(tokens):
        rows = torch.tensor([[*ids, *answer] for answer in law])
        logits = torch.cat([model(part).logits[:, -1].double() for part in rows.split(64)])
        best = logits.topk(TOP_K)
        shares = best.values.softmax(-1).tolist()
        law = {
            (*answer, token): probability * share
            for (answer, probability), row, drawn in zip(
                law.items(), shares, best.indices.tolist(), strict=True
            )
            for share, token in zip(row, drawn, strict=True)
        }
    return law


def cells(law: Law, draws: int) -> list[tuple[set[tuple[int, ...]], float]]:
    """Answers and their expected number, merged from the least probable on until each cell expects ``LEAST``."""
    merged: list[tuple[set[tuple[int, ...]], float]] = []
    group: set[tuple[int, ...]] = set()
    expected = 0.0
    for answer, probability in sorted(law.items(), key=lambda item: item[1]):
        group, expected = group | {answer}, expected + draws * probability
        if expected >= LEAST:
            merged.append((group, expected))
            group, expected = set(), 0.0
    if group:  # only when there are too few draws for one more cell
        last, number = merged.pop() if merged else (set(), 0.0)
        merged.append((last | group, number + expected))
    return merged


def chi_square(law: Law, counts: Mapping[tuple[int, ...], int]) -> dict[str, Any]:
    """Pearson's test of the counted answers; one that the law excludes is impossible, and makes p zero."""
    draws = sum(counts.values())
    groups = cells(law, draws)
    outside = sum(number for answer, number in counts.items() if answer not in law)
    found = [sum(counts.get(answer, 0) for answer in group) for group, _ in groups]
    statistic = sum((a - b) ** 2 / b for a, (_, b) in zip(found, groups, strict=True))
    p = 0.0 if outside or len(groups) < 2 else float(chi2.sf(statistic, len(groups) - 1))
    return {"draws": draws, "cells": len(groups), "outside": outside, "chi_square": statistic, "p": p}


def holm(values: Sequence[float]) -> list[float]:
    """p-values corrected for their number: with all laws right, the least of them is below a in a share a of files."""
    corrected, largest = [0.0] * len(values), 0.0
    for rank, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - rank) * values[index]))
        corrected[index] = largest
    return corrected


def ask(url: str, ids: Sequence[int], first_seed: int, number: int) -> tuple[list[tuple[int, ...]], int]:
    """``number`` answers with the seeds from ``first_seed`` on, and how often the target verified drafts for them."""
    params = {"temperature": 1.0, "top_k": TOP_K, "max_new_tokens": TOKENS, "ignore_eos": True}
    body = {
        "input_ids": [list(ids)] * number,
        "sampling_params": [params | {"sampling_seed": first_seed + i} for i in range(number)],
    }
    response = httpx.post(f"{url}/generate", json=body, timeout=600)
    response.raise_for_status()
    rows = response.json()
    return [tuple(row["output_ids"]) for row in rows], sum(
        row["meta_info"].get("spec_verify_ct", 0) for row in rows
    )


def drawn(case: dict[str, Any], url: str, draws: int) -> None:
    """One request more for ``case``."""
    done = sum(case["counts"].values())
    answers, verifies = ask(url, case["ids"], done, min(TOGETHER, draws - done))
    for answer in answers:
        key = " ".join(map(str, answer))
        case["counts"][key] = case["counts"].get(key, 0) + 1
    case["verifies"] += verifies


def counted(case: Mapping[str, Any]) -> dict[tuple[int, ...], int]:
    """The answers of a case and their number."""
    return {tuple(map(int, key.split())): number for key, number in case["counts"].items()}


def judge(result: dict[str, Any], model: Any) -> None:
    """Adds each case's test to the result, and the corrected p-values of all."""
    laws = {tuple(ids): exact(model, ids) for ids in {tuple(case["ids"]) for case in result["cases"]}}
    for case in result["cases"]:
        case["test"] = chi_square(laws[tuple(case["ids"])], counted(case))
        if case["verifies"]:
            case["tokens_per_verify"] = (TOKENS - 1) * case["test"]["draws"] / case["verifies"]
    for case, p in zip(result["cases"], holm([case["test"]["p"] for case in result["cases"]]), strict=True):
        case["test"]["corrected_p"] = p
    result["least_corrected_p"] = min(case["test"]["corrected_p"] for case in result["cases"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", required=True)
    parser.add_argument("--name", required=True, help="what the server is called in the file")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=20000, help="for each prompt")
    parser.add_argument("--checkpoint", type=Path, default=tiny.path("tiny-27b"))
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.checkpoint)
    result = json.loads(args.out.read_text()) if args.out.is_file() else {"cases": []}
    result |= {
        "command": "python packages/penny-server/benchmarks/sampling_lossless.py --url URL --name PROFILE --out FILE",
        "temperature": 1.0,
        "top_k": TOP_K,
        "tokens": TOKENS,
        "least_expected": LEAST,
    }
    for prompt in PROMPTS:
        ids = tokenizer(prompt)["input_ids"]
        same = (case for case in result["cases"] if (case["server"], case["ids"]) == (args.name, ids))
        case = next(same, None)
        if case is None:
            case = {"server": args.name, "prompt": prompt, "ids": ids, "verifies": 0, "counts": {}}
            result["cases"].append(case)
        while (done := sum(case["counts"].values())) < args.draws:
            print(f"\r{args.name}, {prompt[:20]!r}: {done} of {args.draws}", end="", file=sys.stderr)
            drawn(case, args.url, args.draws)
            args.out.write_text(json.dumps(result) + "\n")
    print(file=sys.stderr)
    judge(result, AutoModelForImageTextToText.from_pretrained(args.checkpoint, dtype=torch.float32).eval())
    args.out.write_text(json.dumps(result) + "\n")
    for case in result["cases"]:
        test = case["test"]
        print(
            f"{case['server']}, {case['prompt'][:20]!r}: {test['draws']} draws, {test['cells']} cells, "
            f"{test['outside']} outside, p {test['p']:.4f}, corrected {test['corrected_p']:.4f}, "
            f"{case.get('tokens_per_verify', 1):.2f} tokens a verify"
        )


if __name__ == "__main__":
    main()
