"""What a draft-vocabulary map costs in acceptance, beside what its held-out coverage predicts.

    python tools/tiny_map.py MAP.pt --documents DOCUMENTS
    python frspec_acceptance.py collect --url URL --documents DOCUMENTS --out FOLDER/tiny-next.jsonl
    python frspec_acceptance.py collect --url URL --documents DOCUMENTS --out FOLDER/tiny-next-map.jsonl
    python frspec_acceptance.py compare FOLDER --map MAP.pt --out docs/results/frspec-acceptance.json

``collect`` continues prompts from the documents that the build of the map kept back, greedily, on a server that drafts;
with ``--temperature 1`` it draws, for a calibration. Its lines are what ``penny-spec map calibrate`` reads. ``compare``
takes pairs of files, NAME.jsonl without and NAME-map.jsonl with the map. Start the servers in float32, so that rounding
does not make two texts of one prompt.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from typing import Any

import httpx
from tokenizers import Tokenizer

from penny_models import tiny
from penny_spec.frspec import expected_acceptance_loss, load_map, manifest_path, read_manifest
from penny_spec.frspec.holdout import is_held_out

PROMPTS = {"code": 40, "prose": 20}
PROMPT_TOKENS, NEW_TOKENS = 64, 128
HOLD_OUT = 0.1
"""What `tools/tiny_map.py` holds out: the default of `penny-spec map build`."""
TOGETHER = 8
HISTOGRAM = "spec_correct_drafts_histogram"


def prompts(documents: Path, tokenizer: Tokenizer) -> list[tuple[str, list[int]]]:
    """Domain and token ids of each prompt: from a quarter, then from a half of each held-out document."""
    found: list[tuple[str, list[int]]] = []
    for domain, wanted in PROMPTS.items():
        texts = (json.loads(line)["text"] for line in (documents / f"{domain}.jsonl").open())
        held_out = [text for text in texts if text and is_held_out(text.encode(), HOLD_OUT)]
        parts = [text[len(text) // share :] for share in (4, 2) for text in held_out]
        rows = [tokenizer.encode(text).ids[:PROMPT_TOKENS] for text in parts]
        found += [(domain, ids) for ids in rows if len(ids) == PROMPT_TOKENS][:wanted]
    return found


def collect(url: str, documents: Path, temperature: float) -> list[dict[str, Any]]:
    """The answers, one a row. Raises httpx.HTTPError."""
    tokenizer = Tokenizer.from_file(str(tiny.path("tiny-next") / "tokenizer.json"))

    def ask(numbered: tuple[int, tuple[str, list[int]]]) -> dict[str, Any]:
        number, (domain, ids) = numbered
        sampling = {"temperature": temperature, "max_new_tokens": NEW_TOKENS, "ignore_eos": True}
        sampling["sampling_seed"] = number
        body = {"input_ids": ids, "sampling_params": sampling}
        answer = httpx.post(f"{url}/generate", json=body, timeout=900).raise_for_status().json()
        return {
            "group": f"temperature_{temperature:g}/{domain}",
            "prompt": ids,
            "output_ids": answer["output_ids"],
            "meta_info": {HISTOGRAM: answer["meta_info"][HISTOGRAM]},
        }

    with ThreadPoolExecutor(TOGETHER) as pool:
        return list(pool.map(ask, enumerate(prompts(documents, tokenizer))))


def reached(rows: Iterable[dict[str, Any]], positions: int) -> list[float]:
    """The share of verifies that accepted at least 1, 2, ... draft tokens."""
    counts = [0] * (positions + 1)
    for row in rows:
        for accepted, verifies in enumerate(row["meta_info"][HISTOGRAM]):
            counts[accepted] += verifies
    at_least = list(accumulate(reversed(counts)))[::-1]
    return [count / at_least[0] for count in at_least[1:]]


def compared(
    without: Sequence[dict[str, Any]], with_map: Sequence[dict[str, Any]], kept: set[int], held_out: float
) -> dict[str, Any]:
    """One group: accepted draft tokens of a verify, the loss, and what two coverages of held-out text predict for it.

    ``by_answers`` is that of the answers without the map to these held-out prompts: what was drafted here.
    ``by_documents`` is the manifest's, of the documents that the prompts are from; it fits where the model writes so.
    """
    positions = max(len(row["meta_info"][HISTOGRAM]) for row in (*without, *with_map)) - 1
    native, mapped = reached(without, positions), reached(with_map, positions)
    tokens = [token for row in without for token in row["output_ids"]]
    emitted = sum(token in kept for token in tokens) / len(tokens)
    lost = sum(native) - sum(mapped)
    same = sum(a["output_ids"] == b["output_ids"] for a, b in zip(without, with_map, strict=True))
    return {
        "prompts": len(without),
        "same_output": same,
        "reached": native,
        "reached_with_map": mapped,
        "accepted": sum(native),
        "accepted_with_map": sum(mapped),
        "lost": lost,
        "by_answers": _predicted(emitted, native, lost),
        "by_documents": _predicted(held_out, native, lost),
    }


def _predicted(coverage: float, native: Sequence[float], lost: float) -> dict[str, Any]:
    found = expected_acceptance_loss(coverage, native)
    within = lost <= found.bound
    return {"coverage": coverage, "bound": found.bound, "estimate": found.estimate, "within": within}


def of(rows: Sequence[dict[str, Any]], domain: str) -> list[dict[str, Any]]:
    """The rows of a domain."""
    return [row for row in rows if domain == "all" or row["group"].endswith(f"/{domain}")]


def compare(folder: Path, path: Path) -> dict[str, Any]:
    """All pairs of files in ``folder`` by domain, and all domains together."""
    kept = set(load_map(path).tolist())
    shares = {row["name"]: row["share"] for row in read_manifest(manifest_path(path))["held_out"]}
    models: dict[str, Any] = {}
    for file in sorted(folder.glob("*-map.jsonl")):
        name = file.stem.removesuffix("-map")
        with_map, without = (
            [json.loads(line) for line in f.open()] for f in (file, folder / f"{name}.jsonl")
        )
        if [row["prompt"] for row in with_map] != [row["prompt"] for row in without]:
            sys.exit(f"{file.name} and {name}.jsonl have other prompts; collect both again.")
        models[name.replace("-", "_")] = {
            domain: compared(of(without, domain), of(with_map, domain), kept, shares[domain])
            for domain in ("all", *PROMPTS)
        }
    return {
        "command": "python frspec_acceptance.py compare FOLDER --map MAP.pt --out FILE",
        "map": {"rows": len(kept), "ids_sha256": read_manifest(manifest_path(path))["ids_sha256"]},
        "new_tokens": NEW_TOKENS,
        "dtype": "float32",
        "models": models,
    }


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("collect")
    first.add_argument("--url", required=True)
    first.add_argument("--documents", type=Path, required=True)
    first.add_argument("--temperature", type=float, default=0.0)
    first.add_argument("--out", type=Path, required=True)
    second = commands.add_parser("compare")
    second.add_argument("folder", type=Path)
    second.add_argument("--map", type=Path, required=True)
    second.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    if asked.command == "collect":
        rows = collect(asked.url, asked.documents, asked.temperature)
        asked.out.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return
    asked.out.write_text(json.dumps(compare(asked.folder, asked.map), indent=2) + "\n")


if __name__ == "__main__":
    main()
