"""Machines written down, and looks at them, for the tests of penny doctor."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from penny_server.doctor import Case, Check, Facts, Finding, examine, prepare
from penny_server.doctor.facts import Driver, Folder, GpuFacts, Host, Installed, Node, Rate, Tools
from penny_server.errors import PennyError
from penny_server.profiles import Launch, Surroundings, load, parse_overrides, resolve
from penny_server.serving.choose import choose_checkpoint

GIB = 1 << 30
MIB = 1 << 20
UNBUILT = ("recover-ssm", "cache-store", "chat-template")


def pro_6000(watts: float = 600, **more: Any) -> GpuFacts:
    found = GpuFacts(
        name="NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
        capability="12.0",
        total=97_887 * MIB,
        free=97_887 * MIB,
        link_width=16,
        link_width_most=16,
        link_generation=5,
        link_generation_most=5,
        power_limit=watts,
        power_default=watts,
        memory_clock=14_001,
        memory_clock_most=14_001,
        node=0,
    )
    return replace(found, **more)


def h200(**more: Any) -> GpuFacts:
    card = pro_6000(700, name="NVIDIA H200", capability="9.0", total=143_771 * MIB, free=143_771 * MIB)
    return replace(card, memory_clock=3201, memory_clock_most=3201, **more)


def host(gib: float = 256, **more: Any) -> Host:
    found = Host(
        memory=int(gib * GIB),
        available=int((gib - 4) * GIB),
        cpus=frozenset(range(16)),
        cpu_flags=frozenset({"avx2", "avx512f"}),
        files=1_048_576,
        shm=16 * GIB,
        huge_pages="madvise",
        huge_pages_defrag="madvise",
        nodes={0: Node(frozenset(range(16)), int(gib * GIB))},
        clock_source="tsc",
        now=1.8e9,
        newest=1.79e9,
    )
    return replace(found, **more)


def roomy(path: Path) -> Folder:
    return Folder(path, path, free=2000 * GIB, inodes=10**8, kind="ext4")


def facts(*gpus: GpuFacts, **more: Any) -> Facts:
    """A machine without a fault, with these GPUs."""
    given: dict[str, Any] = {
        "driver": Driver("610.57.04", (13, 3)) if gpus else Driver(error="NVML Shared Library Not Found"),
        "gpus": gpus,
        "host": host(),
        "tools": Tools("/usr/local/cuda/bin/nvcc", (13, 3), "/usr/bin/gcc", "/usr/bin/c++", "/usr/bin/ninja"),
        "installed": Installed(
            (3, 12), {"sglang": "0.5.23", "torch": "2.14.1", "flashinfer-python": "0.7.2"}, (), "13.0"
        ),
        "environ": {"HOME": "/home/penny"},
        "folder": roomy,
        "write_rate": lambda path: Rate(6e9, 5e9),
        "read_rate": lambda path: Rate(read=6e9),
    }
    return Facts(**given | more)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Ground:
    """What is looked at: a machine and the words of a command line; tests change it and look again."""

    facts: Facts
    profile: str = "tiny-27b"
    settings: dict[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    model: Path | None = None
    port: int = field(default_factory=free_port)
    kept: list[Any] = field(default_factory=list)

    def change(self, part: str, **values: Any) -> None:
        """Changes fields of the host, tools and so on; of every GPU for ``gpus``."""
        old = getattr(self.facts, part)
        new = tuple(replace(g, **values) for g in old) if part == "gpus" else replace(old, **values)
        self.facts = replace(self.facts, **{part: new})

    def environ(self, **values: str) -> None:
        self.facts = replace(self.facts, environ={**self.facts.environ, **values})

    def launch(self) -> Launch:
        profile = load(self.profile)
        device = "cuda" if self.facts.gpus or "cpu" not in profile.devices else "cpu"
        checkpoint = Path("MODEL") if self.model is None and profile.model.required else None
        capability = self.facts.gpus[0].capability if self.facts.gpus else None
        words = [f"{key}={value}" for key, value in self.settings.items()]
        if profile.draft is not None and "speculative_draft_model_path" not in self.settings:
            words.append("speculative_draft_model_path=DRAFT")
        return resolve(
            profile,
            device,
            checkpoint or choose_checkpoint(profile, self.model),
            Surroundings(Path("/standin"), threads=1, compute_capability=capability),
            parse_overrides(words),
            port=self.port,
            without=[name for name in self.without if name in profile.needs],
        )

    def case(self) -> Case:
        try:
            launch = self.launch()
        except PennyError as error:
            return Case(self.facts, load(self.profile), refusals={"settings.resolve": error})
        return prepare(self.facts, load(self.profile), launch, launch.checkpoint != Path("MODEL"))

    def look(self, checks: tuple[Check, ...]) -> list[Finding]:
        return list(examine(self.case(), checks))


Change = Callable[[Ground], Any]
