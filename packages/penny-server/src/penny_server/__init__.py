"""Serve Qwen3.8 on stock SGLang: launch profiles, the SGLang integration and the penny command."""

__version__ = "0.1.0"
