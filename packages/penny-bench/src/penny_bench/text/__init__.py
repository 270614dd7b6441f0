"""Prompts of real text. See `passages/README.md` for where each passage comes from."""

from penny_bench.text.prompts import passages, prompt

__all__ = ["passages", "prompt"]
