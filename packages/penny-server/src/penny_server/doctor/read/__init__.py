"""Reads the facts of this machine. Nothing here writes, but for the unnamed file whose speed is measured."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from penny_server.doctor.facts import Facts
from penny_server.doctor.read.disk import read_folder, read_rate, write_rate
from penny_server.doctor.read.gpu import read_gpus
from penny_server.doctor.read.host import read_host
from penny_server.doctor.read.packages import read_installed
from penny_server.doctor.read.tools import read_tools

SECONDS = 0.7
"""How long reading and writing are measured, each."""


def read_facts(environ: Mapping[str, str], root: Path = Path("/"), seconds: float = SECONDS) -> Facts:
    """The facts, with ``environ`` as the environment that the server would be started from.

    ``root`` is where /proc and /sys are looked for.
    """
    driver, gpus = read_gpus(environ, root)
    return Facts(
        driver=driver,
        gpus=gpus,
        host=read_host(root),
        tools=read_tools(environ),
        installed=read_installed(environ),
        environ=environ,
        folder=read_folder,
        write_rate=partial(write_rate, seconds=seconds),
        read_rate=partial(read_rate, seconds=seconds),
    )
