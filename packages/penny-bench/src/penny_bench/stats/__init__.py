"""Statistics of repeated measurements. Between two settings the unit is the restart of the server."""

from penny_bench.stats.holm import holm
from penny_bench.stats.order import abba
from penny_bench.stats.permutation import Permutation, sign_flip_test, two_sample_test
from penny_bench.stats.power import log_spread, minimum_effect, power, restarts_needed, spread_cv
from penny_bench.stats.ratio import LARGEST, Ratio, paired_ratio, two_sample_ratio
from penny_bench.stats.summary import Summary, summarise

__all__ = [
    "LARGEST",
    "Permutation",
    "Ratio",
    "Summary",
    "abba",
    "holm",
    "log_spread",
    "minimum_effect",
    "paired_ratio",
    "power",
    "restarts_needed",
    "sign_flip_test",
    "spread_cv",
    "summarise",
    "two_sample_ratio",
    "two_sample_test",
]
