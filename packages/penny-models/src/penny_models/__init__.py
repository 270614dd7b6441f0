"""The two Qwen3.8 model families: checkpoint inspection and the tiny trained checkpoints."""

__version__ = "0.1.0"
