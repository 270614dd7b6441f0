"""Results of other tools as documents of penny-bench."""

from penny_bench.importers.document import imported
from penny_bench.importers.foreign import Foreign, ForeignPhase, ForeignRequest
from penny_bench.importers.guidellm import read_guidellm
from penny_bench.importers.sglang import read_sglang
from penny_bench.importers.vllm import read_vllm

__all__ = [
    "Foreign",
    "ForeignPhase",
    "ForeignRequest",
    "imported",
    "read_guidellm",
    "read_sglang",
    "read_vllm",
]
