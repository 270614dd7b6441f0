"""Prompts of real text. `works/README.md` says where each work comes from."""

from penny_bench.text.library import LANGUAGES, language, passages, read_work, works
from penny_bench.text.prompts import (
    Gauge,
    Segment,
    distinct_tokens,
    head_line,
    prompt,
    random_prompt,
    repeated,
    sample_prompts,
    segments,
)

__all__ = [
    "LANGUAGES",
    "Gauge",
    "Segment",
    "distinct_tokens",
    "head_line",
    "language",
    "passages",
    "prompt",
    "random_prompt",
    "read_work",
    "repeated",
    "sample_prompts",
    "segments",
    "works",
]
