"""Bytes of the KV cache for one token."""

from dataclasses import dataclass

from penny_models.shapes.text import TextShape


@dataclass(frozen=True)
class TokenCost:
    """Bytes that one token takes in one pool: keys and values, and QSA's compressed index keys."""

    kv: int
    index: int

    @property
    def total(self) -> int:
        """Both together."""
        return self.kv + self.index


def token_cost(shape: TextShape, layers: int, kv_width: int, index_width: int = 2, tp: int = 1) -> TokenCost:
    """Cost of a token in ``layers`` full-attention layers on one of ``tp`` GPUs; widths in bytes.

    Follows SGLang ``model_executor/pool_configurator.py``, ``DefaultPoolConfigurator._compute_cell_size``.
    """
    kv = max(1, shape.kv_heads // tp) * 2 * shape.head_dim * layers * kv_width
    index = shape.indexer
    return TokenCost(kv, index.head_dim * index_width // index.ratio * layers if index else 0)
