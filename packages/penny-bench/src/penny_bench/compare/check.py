"""Whether results may be compared at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from penny_bench.compare.document import Document
from penny_bench.compare.restart import Restart
from penny_bench.compare.select import in_all, left_out
from penny_bench.compare.value import Place
from penny_bench.errors import BenchError

PROMPT_LABELLED = 0.05
"""Relative difference between the prompts of two restarts from which it is told."""
SHOWN = 60
"""Longest value that is quoted whole where files differ in it."""


def check(a: Sequence[Restart], b: Sequence[Restart], places: Sequence[Place]) -> tuple[list[str], list[str]]:
    """Faults, with which a comparison would mislead, and notes, which a reader should know: sentences.

    Args:
        a, b: the restarts of the two sides.
        places: what is asked for.

    Raises:
        BenchError: a file was given twice, so that one restart would count as two.
    """
    both = [*a, *b]
    _refuse_copies(both)
    common = in_all(both, places)
    faults, notes = left_out(a, b, places)
    if not common:
        faults.insert(
            0,
            "No row was measured in every restart; a folder holds one result, or one folder, for each restart.",
        )
    for workload in dict.fromkeys(place.workload for place in common or places):
        documents = [d for restart in both for d in restart.documents if d.workload == workload]
        phases = dict.fromkeys(place.phase for place in common if place.workload == workload)
        faults += _differences(documents, lambda d: d.alike)
        notes += _differences(documents, lambda d: d.told)
        for phase in phases:
            lengths = [d.prompts[phase] for d in documents if phase in d.prompts]
            if lengths and max(lengths) > (1 + PROMPT_LABELLED) * min(lengths):
                notes.append(
                    f"{workload} {phase}: the prompts of the files have from {min(lengths):.0f} to "
                    f"{max(lengths):.0f} tokens."
                )
        for d in documents:
            for kept, found in ((faults, d.faults), (notes, d.notes)):
                kept += [
                    f"{d.name}{f', {phase}' if phase else ''}: {sentence}"
                    for phase, sentence in found
                    if phase is None or phase in phases
                ]
    return faults, notes


def _refuse_copies(restarts: Sequence[Restart]) -> None:
    seen: dict[str, str] = {}
    for document in (document for restart in restarts for document in restart.documents):
        if document.digest in seen:
            raise BenchError(
                f"{document.name} and {seen[document.digest]} are the same result; give each restart its own file, "
                f"once."
            )
        seen[document.digest] = document.name


def _differences(documents: Sequence[Document], of: Callable[[Document], Mapping[str, str]]) -> list[str]:
    sentences = []
    for what in dict.fromkeys(key for d in documents for key in of(d)):
        counts = Counter(of(d).get(what, "unknown") for d in documents)
        if len(counts) > 1:
            found = ", ".join(f"{_short(value)} ({n})" for value, n in counts.items())
            sentences.append(f"The files of {documents[0].workload} differ in {what}: {found}.")
    return sentences


def _short(value: str) -> str:
    return value if len(value) <= SHOWN else value[: SHOWN - 3] + "..."
