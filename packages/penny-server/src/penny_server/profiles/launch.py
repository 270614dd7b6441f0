"""From a profile to the exact SGLang arguments and environment."""

from __future__ import annotations

import shlex
import string
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penny_server.errors import ExitCode, PennyError
from penny_server.profiles.flags import Flag, catalogue
from penny_server.profiles.overrides import Overrides
from penny_server.profiles.schema import Device, Profile

LAUNCH_MODULE = "penny_server.sglang.launch"


@dataclass(frozen=True)
class Surroundings:
    """What the machine contributes: the folder of the CPU stand-in and the threads the engine may use."""

    standin: Path
    threads: int


@dataclass(frozen=True)
class Launch:
    """A profile resolved on one device. ``env`` is added to the environment of the caller.

    ``PYTHONPATH`` in ``env`` goes in front of the caller's own.
    """

    profile: str
    device: Device
    checkpoint: Path
    model_name: str
    host: str
    port: int
    features: tuple[str, ...]
    args: tuple[str, ...]
    env: Mapping[str, str]

    @property
    def url(self) -> str:
        """The address for clients on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def argv(self, python: str) -> list[str]:
        """The command that starts the server, for the interpreter ``python``."""
        return [python, "-m", LAUNCH_MODULE, *self.args]

    def command(self, python: str) -> str:
        """The same start as one line for a POSIX shell."""
        words = [f"{name}={shlex.quote(value)}" for name, value in self.env.items() if name != "PYTHONPATH"]
        if "PYTHONPATH" in self.env:
            words.append(f'PYTHONPATH={shlex.quote(self.env["PYTHONPATH"])}"${{PYTHONPATH:+:$PYTHONPATH}}"')
        words += map(shlex.quote, self.argv(python))
        return " ".join(words)

    def child_env(self, base: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of the server process, on top of ``base``.

        Where ``base`` forbids bytecode files next to the sources, they go to the user's cache instead: the
        server's three processes import some 4,000 modules each and would compile them at every start.
        """
        env = {**base, **self.env}
        if env.pop("PYTHONDONTWRITEBYTECODE", None):
            cache = Path(base.get("XDG_CACHE_HOME") or Path.home() / ".cache")
            env.setdefault("PYTHONPYCACHEPREFIX", str(cache / "pennyroyal" / "bytecode"))
        if "PYTHONPATH" in self.env and base.get("PYTHONPATH"):
            env["PYTHONPATH"] = f"{self.env['PYTHONPATH']}:{base['PYTHONPATH']}"
        return env


def resolve(
    profile: Profile,
    device: Device,
    checkpoint: Path,
    surroundings: Surroundings,
    overrides: Overrides | None = None,
    host: str | None = None,
    port: int | None = None,
) -> Launch:
    """Resolves ``profile`` on ``device``; a pure function, given SGLang's declared arguments.

    Later wins: the profile's common settings, its device section, ``overrides``. In environment values
    ``{dtype}`` is the resolved ``dtype`` argument; ``{standin}`` and ``{threads}`` are of ``surroundings``.
    Raises PennyError (usage) when the profile has no section for the device or names an unknown placeholder.
    """
    if device not in profile.devices:
        raise PennyError(
            f"The profile {profile.name} has no settings for the device {device}; "
            f"it is made for: {', '.join(profile.devices)}.",
            ExitCode.USAGE,
        )
    overrides = overrides or Overrides()
    section = profile.section(device)
    host, port = host or profile.defaults.host, profile.defaults.port if port is None else port
    settings: dict[str, Any] = {"served_model_name": profile.name, **profile.sglang, **section.sglang}
    settings.update(overrides.sglang)
    args = ["--model-path", str(checkpoint), "--device", device, "--host", host, "--port", str(port)]
    for key, value in settings.items():
        args += _rendered(catalogue()[key], value) if value is not None else []

    placeholders = {
        "dtype": str(settings.get("dtype") or "auto"),
        "standin": str(surroundings.standin),
        "threads": str(surroundings.threads),
    }
    features = profile.features + section.features
    cpu = {"SGLANG_USE_CPU_ENGINE": "1", "PYTHONPATH": "{standin}"} if device == "cpu" else {}
    env = {**cpu, **profile.env, **section.env, **overrides.env, "PENNY_FEATURES": ",".join(features)}
    return Launch(
        profile=profile.name,
        device=device,
        checkpoint=checkpoint,
        model_name=str(settings["served_model_name"] or checkpoint),
        host=host,
        port=port,
        features=features,
        args=tuple(args),
        env={name: _filled(name, v, placeholders) for name, v in env.items() if v is not None},
    )


def _rendered(flag: Flag, value: Any) -> list[str]:
    if flag.kind == "switch":
        return [flag.option] if value else []
    if flag.kind == "toggle":
        return [flag.option if value else "--no-" + flag.option.removeprefix("--")]
    return [flag.option, *(str(v) for v in (value if isinstance(value, list) else [value]))]


def _filled(name: str, text: str, placeholders: Mapping[str, str]) -> str:
    for _, field, _, _ in string.Formatter().parse(text):
        if field is not None and field not in placeholders:
            raise PennyError(
                f"env.{name} uses the placeholder {{{field}}}; known are: {', '.join(placeholders)}.",
                ExitCode.USAGE,
            )
    return text.format(**placeholders)
