"""Workloads: declarative files of what to measure, and the kinds that run them."""

from penny_bench.load.observer import Observer
from penny_bench.workload.bench import Bench, Phase
from penny_bench.workload.kinds import KINDS, Kind, load_kind
from penny_bench.workload.result import EarlierPhases, Metric, PhaseResult, WorkloadResult
from penny_bench.workload.run import measure_workload
from penny_bench.workload.spec import Workload, parse_changes, parse_workload, read_workload, shipped

__all__ = [
    "KINDS",
    "Bench",
    "EarlierPhases",
    "Kind",
    "Metric",
    "Observer",
    "Phase",
    "PhaseResult",
    "Workload",
    "WorkloadResult",
    "load_kind",
    "measure_workload",
    "parse_changes",
    "parse_workload",
    "read_workload",
    "shipped",
]
