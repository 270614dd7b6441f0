"""Everything that would make a start fail or a server slow, found before anything is loaded; changes nothing."""

from penny_server.doctor.base import Case, Check, Finding, State
from penny_server.doctor.checks import CHECKS, examine
from penny_server.doctor.facts import Facts
from penny_server.doctor.prepare import prepare
from penny_server.doctor.read import read_facts

__all__ = ["CHECKS", "Case", "Check", "Facts", "Finding", "State", "examine", "prepare", "read_facts"]
