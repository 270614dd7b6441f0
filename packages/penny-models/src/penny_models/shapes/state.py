"""State that grows with slots and requests: recurrent slots, what verification keeps, PLE's siblings."""

from dataclasses import dataclass

from penny_models.shapes.text import TextShape

CONTEXT_ID_BYTES = 8
"""An n-gram context keeps token ids as int64 (SGLang ``mem_cache/ple_state_pool.py``, ``NGramPool``)."""


@dataclass(frozen=True)
class SlotState:
    """Bytes of one recurrent slot over all GDN layers, and of what travels with it.

    Attributes:
        temporal: the recurrent matrices ``[value heads, value dim, key dim]``.
        conv: the last ``kernel - 1`` inputs of the convolution.
        ple_conv: PLE's short convolution ``[streams * hidden, (kernel - 1) * ngram]``, in the dtype of
            ``conv``.
        ple_context: PLE's last ``ngram - 1`` token ids.
    """

    temporal: int
    conv: int
    ple_conv: int
    ple_context: int

    @property
    def recurrent(self) -> int:
        """What SGLang counts as one slot (``configs/mamba_utils.py``, ``mamba_cache_per_req``)."""
        return self.temporal + self.conv

    @property
    def siblings(self) -> int:
        """What SGLang allocates beside a slot without counting it when it sizes the pool."""
        return self.ple_conv + self.ple_context


def slot_state(shape: TextShape, ssm_width: int, conv_width: int) -> SlotState:
    """State of one slot; widths in bytes."""
    ngram = shape.ngram
    wide = shape.streams * shape.hidden
    return SlotState(
        temporal=shape.gdn_layers * shape.value_heads * shape.value_dim * shape.key_dim * ssm_width,
        conv=shape.gdn_layers * shape.conv_channels * (shape.conv_kernel - 1) * conv_width,
        ple_conv=len(ngram.layers) * wide * (ngram.kernel - 1) * ngram.ngram * conv_width if ngram else 0,
        ple_context=(ngram.ngram - 1) * CONTEXT_ID_BYTES if ngram else 0,
    )


def verify_state(shape: TextShape, slot: SlotState, draft_tokens: int, conv_width: int, shared: bool) -> int:
    """Bytes that one request's verification keeps: a state and a window for each draft token, and siblings.

    ``shared`` windows overlap in one buffer of ``draft_tokens + kernel - 2`` columns, as SGLang keeps them on
    CUDA for a linear draft chain (``mem_cache/memory_pool.py``, ``MambaPool``).
    """
    columns = shape.conv_kernel - 1
    columns = draft_tokens + columns - 1 if shared else draft_tokens * columns
    window = shape.gdn_layers * shape.conv_channels * columns * conv_width
    return slot.temporal * draft_tokens + window + slot.siblings * draft_tokens


def replay_ring(shape: TextShape, length: int, conv_width: int) -> int:
    """Bytes of one request's ReplaySSM ring (``configs/mamba_utils.py``, ``replayssm_ring_bytes_per_req``)."""
    values = shape.value_heads * length * shape.value_dim * conv_width
    keys = shape.key_heads * length * shape.key_dim * conv_width
    low_parts = 2 if conv_width != 4 else 1
    return shape.gdn_layers * (low_parts * (values + keys) + shape.value_heads * length * 4)
