"""Compares a server's greedy tokens with transformers' float32 tokens on the same weights, and explains differences.

    python same_tokens.py --url http://127.0.0.1:8001 --checkpoint DIR --out result.json

For each prompt the server's tokens are compared one by one. Up to the first difference both models have seen the
same tokens, so the reference's logits there say how far apart the two choices are: ``gap`` is the reference's logit
of its own choice minus that of the server's choice. ``rounding`` is the largest difference that bfloat16 makes to a
logit of the reference itself at the same places: a gap below twice that is a tie that rounding decides.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import httpx
import torch
from transformers import AutoTokenizer, Qwen3_5ForConditionalGeneration

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "serving"))
from prompts import ALL

NEW_TOKENS = 64


def load(checkpoint: Path, dtype: torch.dtype) -> Any:
    """The reference model; it never stops at an end marker, so that every answer has the same length."""
    model = Qwen3_5ForConditionalGeneration.from_pretrained(checkpoint, dtype=dtype).eval()
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


def server_tokens(url: str, ids: list[int]) -> list[int]:
    """Greedy continuation of ``NEW_TOKENS`` tokens by the server."""
    sampling = {"temperature": 0, "max_new_tokens": NEW_TOKENS, "ignore_eos": True}
    response = httpx.post(
        f"{url}/generate", json={"input_ids": ids, "sampling_params": sampling}, timeout=300
    )
    response.raise_for_status()
    return response.json()["output_ids"]


def compare(url: str, exact: Any, rounded: Any, ids: list[int]) -> dict[str, Any]:
    """One prompt's row: whether the tokens are the same, else where they part and by what gap."""
    wanted, found = reference_tokens(exact, ids), server_tokens(url, ids)
    first = next((i for i, (a, b) in enumerate(zip(wanted, found, strict=True)) if a != b), None)
    row: dict[str, Any] = {"prompt_tokens": len(ids), "same": first is None}
    if first is not None:
        seen = torch.tensor([ids + wanted[:first]])
        logits = exact(seen).logits[0, -1].float()
        row |= {
            "first_difference": first,
            "gap": (logits[wanted[first]] - logits[found[first]]).item(),
            "rounding": (rounded(seen).logits[0, -1].float() - logits).abs().max().item(),
            "rank_of_server_token": int((logits > logits[found[first]]).sum()),
        }
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.checkpoint)
    exact, rounded = load(args.checkpoint, torch.float32), load(args.checkpoint, torch.bfloat16)
    with torch.inference_mode():
        rows = [compare(args.url, exact, rounded, tokenizer(text)["input_ids"]) for text in ALL]
    info = httpx.get(f"{args.url}/server_info", timeout=60).json()
    different = [row for row in rows if not row["same"]]
    result = {
        "command": "python benchmarks/same_tokens.py --url URL --checkpoint DIR --out FILE",
        "server": {k: info.get(k) for k in ("device", "dtype", "attention_backend", "version")},
        "prompts": len(rows),
        "tokens_each": NEW_TOKENS,
        "same": len(rows) - len(different),
        "explained_by_rounding": sum(row["gap"] < 2 * row["rounding"] for row in different),
        "rows": rows,
    }
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{result['same']} of {len(rows)} prompts have the same {NEW_TOKENS} tokens")
    for row in different:
        print(
            f"  parts at token {row['first_difference']}: gap {row['gap']:.4f}, rounding {row['rounding']:.4f}"
        )


if __name__ == "__main__":
    main()
