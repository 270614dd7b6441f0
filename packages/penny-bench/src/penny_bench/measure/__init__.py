"""Measurements: what to send, and the numbers that the records give."""

from penny_bench.measure.clock import Clock, new_clock
from penny_bench.measure.decode import DecodePlan, DecodeResult, Group, measure_decode
from penny_bench.measure.preflight import preflight
from penny_bench.measure.rates import GroupRates, decode_rate, group_rates

__all__ = [
    "Clock",
    "DecodePlan",
    "DecodeResult",
    "Group",
    "GroupRates",
    "decode_rate",
    "group_rates",
    "measure_decode",
    "new_clock",
    "preflight",
]
