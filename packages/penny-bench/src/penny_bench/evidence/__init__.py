"""Evidence: one JSON document per run, with a published schema, from which every number can be had again."""

from penny_bench.evidence.build import Around, evidence, load_part
from penny_bench.evidence.machine import Machine, machine
from penny_bench.evidence.nvml import Gpu, GpuState, Nvml
from penny_bench.evidence.read import earlier_part, earlier_phases
from penny_bench.evidence.sampler import GpuSample, GpuSampler
from penny_bench.evidence.schema import SCHEMA, schema, schema_text
from penny_bench.evidence.server_info import server_info, server_state

__all__ = [
    "SCHEMA",
    "Around",
    "Gpu",
    "GpuSample",
    "GpuSampler",
    "GpuState",
    "Machine",
    "Nvml",
    "earlier_part",
    "earlier_phases",
    "evidence",
    "load_part",
    "machine",
    "schema",
    "schema_text",
    "server_info",
    "server_state",
]
