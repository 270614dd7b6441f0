"""Prompts of real text. See `passages/README.md` for where each passage comes from."""

from penny_bench.text.prompts import Gauge, head_line, passages, prompt, sample_prompts

__all__ = ["Gauge", "head_line", "passages", "prompt", "sample_prompts"]
