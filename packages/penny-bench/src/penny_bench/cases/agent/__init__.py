"""Worlds that an agent acts on."""

from penny_bench.cases.agent.files import Files
from penny_bench.cases.agent.shop import Shop
from penny_bench.cases.agent.world import Refused, World

WORLDS: dict[str, type[World]] = {world.name: world for world in (Shop, Files)}

__all__ = ["WORLDS", "Files", "Refused", "Shop", "World"]
