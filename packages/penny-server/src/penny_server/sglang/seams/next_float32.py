"""For tests only: Flash-Next (``qwen4_exp``) in float32, so that its tokens can be compared exactly.

Stock writes bfloat16 into the family's code at several places, whatever ``--dtype`` says. With float32 beside them its
layers do not even run. No profile names this feature; with ``dtype = "bfloat16"`` it changes nothing.
"""

from __future__ import annotations

from typing import Any

from penny_server.sglang.probes import hooked
from penny_server.sglang.seam import Kind, Seam

FEATURE = "next-float32"
STREAMS = "sglang.srt.layers.hyperconnection.GatedResidual.__init__"
TABLE = "sglang.srt.models.qwen4_exp.Qwen4ExpNGramEmbedding.__init__"
INDEX = "sglang.srt.mem_cache.qsa_kv_pool.QSATokenToKVPool.__init__"


def _streams(module: Any, config: Any, *args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """SGLang builds a model with its dtype as torch's default."""
    import msgspec
    import torch

    config = msgspec.structs.replace(config, params_dtype=torch.get_default_dtype())
    return (module, config, *args), kwargs


def _table(result: None, module: Any, *args: Any, **kwargs: Any) -> None:
    import torch

    module.ngram_embedding.to(torch.get_default_dtype())
    module.ngram_embedding.output_dtype = torch.get_default_dtype()


def _index(result: None, pool: Any, *args: Any, **kwargs: Any) -> None:
    """The pending and the compressed keys; the latter are views of one tensor."""
    import torch

    if pool.dtype != torch.float32:
        return
    pool.index_state_dtype = pool.qsa_compressed_dtype = torch.float32
    pool.qsa_key_state_buffer_pool = [keys.float() for keys in pool.qsa_key_state_buffer_pool]
    pool.qsa_compressed_flat = pool.qsa_compressed_flat.float()
    pool.qsa_compressed_k_buffer_pool = [
        flat.view_as(keys)
        for flat, keys in zip(pool.qsa_compressed_flat, pool.qsa_compressed_k_buffer_pool, strict=True)
    ]


def _seam(name: str, target: str, digest: str, what: str, kind: Kind, hook: Any) -> Seam:
    summary = f"for tests: keeps {what} in the model's dtype instead of bfloat16"
    return Seam(
        f"{FEATURE}.{name}", FEATURE, target, digest, summary, kind, hook, lambda: hooked(target), ("scheduler",)
    )  # fmt: skip


SEAMS = (
    _seam(
        "streams",
        STREAMS,
        "5748d55b37959c49",
        "the mixing weights of the residual streams",
        "before",
        _streams,
    ),
    _seam("table", TABLE, "376d1fb058ac2141", "the n-gram table", "after", _table),
    _seam("index", INDEX, "a4ccd4da6082950b", "the keys of the sparse-attention index", "after", _index),
)
