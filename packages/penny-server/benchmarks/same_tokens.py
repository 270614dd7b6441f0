"""Compares a server's greedy tokens with transformers' float32 tokens on the same weights, and explains differences.

    python same_tokens.py collect --url http://127.0.0.1:8001 --checkpoint DIR --out tokens.json [--long 3000]
    python same_tokens.py explain tokens.json --checkpoint DIR --out result.json

``collect`` asks the server, each prompt twice (the second time its prefix is cached), and then all of them four at a
time; ``explain`` needs no server and no GPU. For each prompt the server's tokens are compared one by one. Up to the
first difference both models have seen the same tokens, so the reference's logits there say how far apart the two
choices are: ``gap`` is the reference's logit of its own choice minus that of the server's choice. ``rounding`` is the
largest difference that bfloat16 makes to a logit of the reference itself at the same place: a gap below twice that is a
tie that rounding decides.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import torch
from transformers import AutoModelForImageTextToText, AutoTokenizer

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "serving"))
from prompts import ALL

NEW_TOKENS = 64
STREAMS = 4
"""Requests at once when prompts are asked beside others."""


def ask(url: str, ids: list[int]) -> dict[str, Any]:
    """The server's greedy continuation of ``NEW_TOKENS`` tokens, and what it says about the prefix and the drafts."""
    sampling = {"temperature": 0, "max_new_tokens": NEW_TOKENS, "ignore_eos": True}
    response = httpx.post(
        f"{url}/generate", json={"input_ids": ids, "sampling_params": sampling}, timeout=300
    )
    response.raise_for_status()
    answer = response.json()
    told = ("cached_tokens", "spec_accept_length", "spec_verify_ct")
    return {"tokens": answer["output_ids"]} | {k: v for k in told if (v := answer["meta_info"].get(k))}


def collect(url: str, checkpoint: Path, long: int) -> dict[str, Any]:
    """The server's answers to the twenty prompts, and to one of ``long`` tokens if that is not 0."""
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    prompts = [tokenizer(text)["input_ids"] for text in ALL]
    if long:
        rows = "".join(f"row {i}: {i * i % 997}, {i * 7 % 89}\n" for i in range(long))
        prompts.append(tokenizer(rows)["input_ids"][:long])
    info = httpx.get(f"{url}/server_info", timeout=60).json()
    asked = ("device", "dtype", "attention_backend", "speculative_algorithm", "disable_cuda_graph", "version")
    alone = [{"ids": ids, "first": ask(url, ids), "again": ask(url, ids)} for ids in prompts]
    with ThreadPoolExecutor(STREAMS) as pool:
        beside = list(pool.map(lambda ids: ask(url, ids), prompts))
    return {
        "server": {key: info.get(key) for key in asked},
        "prompts": [row | {"beside": answer} for row, answer in zip(alone, beside, strict=True)],
    }


def load(checkpoint: Path, dtype: torch.dtype) -> Any:
    """The reference model; it never stops at an end marker, so that every answer has the same length."""
    model = AutoModelForImageTextToText.from_pretrained(checkpoint, dtype=dtype).eval()
    model.generation_config.eos_token_id = None
    return model


def reference_tokens(model: Any, ids: list[int]) -> list[int]:
    """Greedy continuation of ``NEW_TOKENS`` tokens by transformers."""
    prompt = torch.tensor([ids])
    out = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=NEW_TOKENS,
        pad_token_id=0,
        do_sample=False,
    )
    return out[0, len(ids) :].tolist()


def parted(ids: list[int], wanted: list[int], found: list[int], exact: Any, rounded: Any) -> dict[str, Any]:
    """Where an answer parts from the reference's, and by what gap."""
    first = next((i for i, (a, b) in enumerate(zip(wanted, found, strict=True)) if a != b), None)
    if first is None:
        return {"same": True}
    seen = torch.tensor([ids + wanted[:first]])
    logits = exact(seen).logits[0, -1].float()
    return {
        "same": False,
        "first_difference": first,
        "gap": (logits[wanted[first]] - logits[found[first]]).item(),
        "rounding": (rounded(seen).logits[0, -1].float() - logits).abs().max().item(),
        "rank_of_server_token": int((logits > logits[found[first]]).sum()),
    }


def explain(asked: dict[str, Any], exact: Any, rounded: Any) -> dict[str, Any]:
    """One prompt's row: whether the tokens are the same, else where they part; ``beside`` for four at once."""
    ids, found = asked["ids"], asked["first"]["tokens"]
    wanted = reference_tokens(exact, ids)
    row: dict[str, Any] = {
        "prompt_tokens": len(ids),
        "cached_the_second_time": asked["again"].get("cached_tokens", 0),
        "same_when_cached": asked["again"]["tokens"] == found,
    } | {k: v for k in ("spec_accept_length", "spec_verify_ct") if (v := asked["first"].get(k))}
    row |= parted(ids, wanted, found, exact, rounded)
    row["beside"] = parted(ids, wanted, asked["beside"]["tokens"], exact, rounded)
    return row


def summary(asked: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The result file; with drafts, the tokens for each verify over all prompts, each prompt's first token left out."""
    different = [row for row in rows if not row["same"]]
    apart = [row["beside"] for row in rows if not row["beside"]["same"]]
    verifies = sum(row.get("spec_verify_ct", 0) for row in rows)
    return {
        "command": "python benchmarks/same_tokens.py explain TOKENS --checkpoint DIR --out FILE",
        "server": asked["server"],
        "prompts": len(rows),
        "tokens_each": NEW_TOKENS,
        "same": len(rows) - len(different),
        "same_when_cached": sum(row["same_when_cached"] for row in rows),
        "explained_by_rounding": sum(row["gap"] < 2 * row["rounding"] for row in different),
        "same_four_at_once": len(rows) - len(apart),
        "explained_four_at_once": sum(row["gap"] < 2 * row["rounding"] for row in apart),
        **({"tokens_per_verify": (NEW_TOKENS - 1) * len(rows) / verifies} if verifies else {}),
        "rows": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    asking = commands.add_parser("collect", help="ask a server")
    asking.add_argument("--url", required=True)
    asking.add_argument("--long", type=int, default=0, help="add a prompt of this many tokens")
    explaining = commands.add_parser("explain", help="compare what was collected with transformers")
    explaining.add_argument("tokens", type=Path)
    for command in (asking, explaining):
        command.add_argument("--checkpoint", type=Path, required=True)
        command.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    if args.command == "collect":
        asked = collect(args.url, args.checkpoint, args.long)
        args.out.write_text(json.dumps(asked) + "\n")
        print(f"{len(asked['prompts'])} prompts asked twice")
        return
    asked = json.loads(args.tokens.read_text())
    exact, rounded = load(args.checkpoint, torch.float32), load(args.checkpoint, torch.bfloat16)
    with torch.inference_mode():
        rows = [explain(row, exact, rounded) for row in asked["prompts"]]
    result = summary(asked, rows)
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{result['same']} of {len(rows)} prompts have the same {NEW_TOKENS} tokens")
    for row in rows:
        if not row["same"]:
            print(
                f"  parts at token {row['first_difference']}: gap {row['gap']:.4f}, rounding {row['rounding']:.4f}"
            )


if __name__ == "__main__":
    main()
