"""Whether results may be compared at all."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from penny_bench.compare.restart import Restart
from penny_bench.errors import BenchError

CACHED_REFUSED = 0.5
"""Share of a prompt from the server's cache from which a TTFT is not cold."""
CACHED_LABELLED = 0.05
"""Share above which it is told; below are the first tokens of a chat template, equal in every prompt."""
PROMPT_LABELLED = 0.05
"""Relative difference between the prompts of two restarts from which it is told."""


def check(a: Sequence[Restart], b: Sequence[Restart]) -> tuple[list[str], list[str]]:
    """Faults, with which a comparison would mislead, and notes, which a reader should know: sentences.

    Raises:
        BenchError: a file was given twice, so that one restart would count as two.
    """
    both = [*a, *b]
    _refuse_copies(both)
    faults = [
        *_differences(both, "the model", lambda r: r.model),
        *_differences(both, "tokens", lambda r: r.tokens),
        *_differences(both, "prompt tokens", lambda r: r.prompt_tokens),
        *_differences(both, "ignore_eos taken by the server", lambda r: r.extensions),
    ]
    notes = [
        *_differences(both, "runs in a restart", lambda r: r.runs),
        *_differences(both, "the client", lambda r: ", ".join(r.client.values())),
    ]
    common = common_concurrency(a, b)
    if not common:
        faults.append("No concurrency was measured in every file.")
    elif left_out := sorted({c for r in both for c in r.rows} - set(common)):
        notes.append(f"Not in every file, so left out: {', '.join(map(str, left_out))} streams.")
    for c in common:
        lengths = [length for r in both if (length := r.rows[c].prompt_tokens)]
        if lengths and max(lengths) > (1 + PROMPT_LABELLED) * min(lengths):
            notes.append(
                f"{c} streams: the prompts of the files have from {min(lengths):.0f} to {max(lengths):.0f} tokens."
            )
        for r in both:
            row, name = r.rows[c], f"{r.name}, {c} streams:"
            if row.failed:
                faults.append(f"{name} {row.failed} failed.")
            if row.least_tokens is not None and row.least_tokens < r.tokens:
                faults.append(f"{name} a stream ended after {row.least_tokens:.0f} of {r.tokens} tokens.")
            if row.cached > CACHED_LABELLED:
                sentence = f"{name} {row.cached:.0%} of a prompt came from the server's cache."
                (faults if row.cached > CACHED_REFUSED else notes).append(sentence)
    return faults, notes


def common_concurrency(a: Sequence[Restart], b: Sequence[Restart]) -> list[int]:
    """The concurrencies that every file has, in ascending order."""
    return sorted(set.intersection(*(set(r.rows) for r in [*a, *b])))


def _refuse_copies(restarts: Sequence[Restart]) -> None:
    seen: dict[str, str] = {}
    for r in restarts:
        if r.digest in seen:
            raise BenchError(
                f"{r.name} and {seen[r.digest]} are the same result; give each restart its own file, once."
            )
        seen[r.digest] = r.name


def _differences(restarts: Sequence[Restart], what: str, of: Callable[[Restart], Any]) -> list[str]:
    counts = Counter(of(r) for r in restarts)
    if len(counts) < 2:
        return []
    return [f"The files differ in {what}: {', '.join(f'{v} ({n})' for v, n in counts.items())}."]
