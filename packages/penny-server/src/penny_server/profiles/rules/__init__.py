"""Settings that cannot work, found before anything is started."""

from __future__ import annotations

from penny_server.profiles.rules import backends, cache, pools, speculation
from penny_server.profiles.rules.base import Case, refuse
from penny_server.profiles.rules.machine import check_fraction, check_gpus
from penny_server.profiles.rules.model import check_model

__all__ = ["Case", "check_fraction", "check_gpus", "check_model", "check_settings", "refuse"]

RULES = (*speculation.RULES, *backends.RULES, *pools.RULES, *cache.RULES)


def check_settings(case: Case) -> None:
    """Raises PennyError (usage) for the first rule that the settings break; needs no machine and no checkpoint."""
    for rule in RULES:
        rule(case)
