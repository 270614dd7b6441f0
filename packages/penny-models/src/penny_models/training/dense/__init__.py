"""``tiny-27b``: the architecture of Qwen3.8-27B in miniature."""
