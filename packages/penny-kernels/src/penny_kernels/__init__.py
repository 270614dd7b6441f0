"""GPU operations for Qwen3.8 and the reference CPU operation set that lets stock SGLang run without a GPU."""

__version__ = "0.1.0"
