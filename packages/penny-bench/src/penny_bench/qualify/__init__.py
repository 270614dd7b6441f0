"""Qualification: a list of workloads with their pass marks, and the page that a release publishes."""

from penny_bench.qualify.judge import Judged, judge
from penny_bench.qualify.plan import Mark, PlannedRun, QualificationPlan, read_plan

__all__ = ["Judged", "Mark", "PlannedRun", "QualificationPlan", "judge", "read_plan"]
