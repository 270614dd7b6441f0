"""Record verify traces of tiny-27b: its NEXTN layer drafts 7 tokens at every position of the model's own texts.

    python -m penny_models.training data DATA
    python packages/penny-spec/benchmarks/record_traces.py --data DATA

Held-out prompts of 128 tokens are continued at temperature 0 and at temperature 1. Stock drafts the likeliest token
whatever the temperature, and accepts it when it is the token that the target chose, so a text that the model made
alone has the same accepted counts as one made with drafts. `mixed` takes code at 0 and prose at 1 in turn.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor

from penny_models import tiny
from penny_models.training.base import DraftingModel
from penny_models.training.continuations import continue_prompts, slices
from penny_models.training.draft_mask import draft_step_mask
from penny_models.training.nextn.train import read_model
from penny_models.training.recipes import recipe
from penny_models.training.shards import load_streams
from penny_spec.adaptive.trace import Record, Trace, write_trace

WIDEST = 7
PROMPT = 128
NEW = 380
"""Tokens of an answer whose every position is a record."""
HALVES = ("first", "second")
REQUESTS = 12
"""In each trace; 300 KB at 60 bytes a record."""
PLANS = {
    "code": [("code", index % 2) for index in range(REQUESTS)],
    "prose": [("prose", index % 2) for index in range(REQUESTS)],
    "mixed": [("prose", 1) if index % 2 else ("code", 0) for index in range(REQUESTS)],
}
"""By trace, the kind of text and the temperature of each request."""


@torch.no_grad()
def runs(model: DraftingModel, text: Tensor) -> tuple[Tensor, Tensor]:
    """Return accepted counts and top-1 probabilities, both [B, T - 1 - WIDEST], after every position of texts [B, T].

    Draft step k at position i proposes token i + 1 + k from the text's own tokens: a chain is read only as far as
    its tokens are the text's, so that its inputs are its own drafts.
    """
    length = text.shape[1] - 1 - WIDEST
    features = model.features(text[:, :length])
    embedded = model.embed(text[:, 1:])
    past = model.new_past()
    accepting = torch.ones(len(text), length, dtype=torch.bool)
    accepted = torch.zeros(len(text), length, dtype=torch.long)
    top1 = torch.zeros(len(text), length)
    for step in range(WIDEST):
        mask = draft_step_mask(length, step + 1, text.device) if step else None
        given = embedded[:, step : step + length]
        hidden, features = model.draft_step(
            given, features, model.rotary(embedded, step, length), mask, past, None
        )
        probabilities = model.head(hidden).float().softmax(-1)
        if step == 0:
            top1 = probabilities.amax(-1)
        accepting &= probabilities.argmax(-1) == text[:, step + 2 : step + 2 + length]
        accepted += accepting
    return accepted, top1


def record(
    model: DraftingModel, streams: dict[str, Tensor], plan: list[tuple[str, int]], seed: int, half: str
) -> Trace:
    """Return the trace of a plan's requests, one after another."""
    generator = torch.Generator().manual_seed(seed)
    prompts = torch.cat([slices(streams[kind], 1, PROMPT, generator) for kind, _ in plan])
    heat = torch.tensor([float(temperature) for _, temperature in plan])
    text = continue_prompts(model.base, prompts, NEW + WIDEST, heat, seed)
    accepted, top1 = (rows[:, PROMPT - 1 :].tolist() for rows in runs(model, text))
    records = tuple(
        Record(request, WIDEST, count, probability, 1)
        for request, (counts, probabilities) in enumerate(zip(accepted, top1, strict=True))
        for count, probability in zip(counts, probabilities, strict=True)
    )
    requests = [{"kind": kind, "temperature": temperature} for kind, temperature in plan]
    return Trace(records, True, {"model": "tiny-27b", "seed": seed, "half": half, "requests": requests})


def main() -> None:
    """Write one file for each plan."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, required=True, help="folder of `python -m penny_models.training data`"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "traces")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--half",
        choices=HALVES,
        default="second",
        help="of each held-out stream; constants were fitted on the first",
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    made = recipe("tiny-27b")
    made.use_kernels()
    model = read_model(tiny.path("tiny-27b"), made, torch.device("cpu")).eval()
    streams = {
        kind: torch.from_numpy(stream.tokens.astype("int64")).chunk(2)[HALVES.index(arguments.half)]
        for kind, stream in load_streams(arguments.data / "held_out.npz").items()
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    for offset, (name, plan) in enumerate(PLANS.items()):
        trace = record(model, streams, plan, 10 * arguments.seed + offset, arguments.half)
        write_trace(arguments.out / f"{name}.jsonl", trace)
        mean = sum(one.accepted for one in trace.records) / len(trace.records)
        print(f"{name}: {len(trace.records)} positions, {mean:.2f} of {WIDEST} accepted on average")


if __name__ == "__main__":
    main()
