"""From a profile to the exact SGLang arguments and environment."""

from __future__ import annotations

import shlex
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penny_server.errors import ExitCode, PennyError
from penny_server.profiles import backends, speculation
from penny_server.profiles.flags import Flag, catalogue
from penny_server.profiles.merge import merge
from penny_server.profiles.options import JSON, as_table, compact
from penny_server.profiles.overrides import Overrides
from penny_server.profiles.rules import Case, check_settings
from penny_server.profiles.schema import Asserts, Device, Profile

LAUNCH_MODULE = "penny_server.sglang.launch"
DERIVED = "derived"


@dataclass(frozen=True)
class Surroundings:
    """What the machine contributes: the folder of the CPU stand-in, the threads the engine may use, and the
    compute capability of the GPU that would be taken (None where there is none)."""

    standin: Path
    threads: int
    compute_capability: str | None = None


@dataclass(frozen=True)
class Launch:
    """A profile resolved on one device. ``env`` is added to the environment of the caller.

    ``PYTHONPATH`` in ``env`` goes in front of the caller's own.

    Attributes:
        features: The features whose seams the server applies, those of ``needs`` included.
        needs: Features in use that are not built yet; while there are any, the launch must not be started.
        settings: The SGLang arguments by name, as ``args`` renders them; JSON arguments are tables.
        options: The values of our options.
        origins: Where each setting comes from, by ``sglang.NAME``, ``env.NAME`` or ``options.NAME``.
        compute_capability: The GPU that the settings are for, for example ``12.0``; None for any.
        asserts: What must be true once the server is ready.
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
    needs: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    compute_capability: str | None = None
    asserts: Asserts = field(default_factory=Asserts)

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
    overrides: Overrides | Sequence[Overrides] | None = None,
    host: str | None = None,
    port: int | None = None,
    without: Iterable[str] = (),
) -> Launch:
    """Resolves ``profile`` on ``device``; a pure function, given SGLang's declared arguments.

    Later wins: the profile's layers (see `merge`), ``overrides``, weakest first. ``without`` names features of
    the profile's ``needs`` to start without. In environment values ``{dtype}`` is the resolved ``dtype`` argument;
    ``{standin}`` and ``{threads}`` are of ``surroundings``. Raises PennyError (usage) when the profile has no
    section for the device, names an unknown placeholder, or settings contradict each other (see `rules`).
    """
    if device not in profile.devices:
        raise PennyError(
            f"The profile {profile.name} has no settings for the device {device}; "
            f"it is made for: {', '.join(profile.devices)}.",
            ExitCode.USAGE,
        )
    layers = [overrides] if isinstance(overrides, Overrides) else list(overrides or ())
    section = profile.section(device)
    merged = merge(profile, device, layers, without)
    only = section.compute_capability if len(section.compute_capability) == 1 else ()
    capability = (only[0] if only else surroundings.compute_capability) if device == "cuda" else None

    settings, origins = merged.draft.sglang, merged.origins
    settings.update({key: as_table(key, settings[key]) for key in JSON if isinstance(settings.get(key), str)})
    derived = speculation.complete(settings) | backends.complete(settings, capability)
    derived |= speculation.adaptive(settings, merged.options, device)
    settings.update(derived)
    origins.update(dict.fromkeys((f"sglang.{key}" for key in derived), DERIVED))

    host, port = host or profile.defaults.host, profile.defaults.port if port is None else port
    args = ["--model-path", str(checkpoint), "--device", device, "--host", host, "--port", str(port)]
    for key, value in settings.items():
        args += _rendered(catalogue()[key], value)

    placeholders = {
        "dtype": str(settings.get("dtype") or "auto"),
        "standin": str(surroundings.standin),
        "threads": str(surroundings.threads),
    }
    implied = ("adaptive",) if merged.options.get("adaptive") is not None else ()
    features = (*profile.features, *section.features, *merged.needs, *implied)
    cpu = {"SGLANG_USE_CPU_ENGINE": "1", "PYTHONPATH": "{standin}"} if device == "cpu" else {}
    env = {**cpu, **merged.draft.env, "PENNY_FEATURES": ",".join(features)}
    draft = settings.get("speculative_draft_model_path")
    if "draft-overrides" in features and draft and Path(str(draft)) != checkpoint:
        env["PENNY_DRAFT_PATH"] = str(draft)
    check_settings(Case(settings, merged.options, device, capability))
    return Launch(
        profile=profile.name,
        device=device,
        checkpoint=checkpoint,
        model_name=str(settings.get("served_model_name") or checkpoint),
        host=host,
        port=port,
        features=features,
        args=tuple(args),
        env={name: _filled(name, v, placeholders) for name, v in env.items() if v is not None},
        needs=merged.needs,
        settings=settings,
        options=merged.options,
        origins=origins,
        compute_capability=capability,
        asserts=profile.asserts.under(section.asserts),
    )


def _rendered(flag: Flag, value: Any) -> list[str]:
    if flag.kind == "switch":
        return [flag.option] if value else []
    if flag.kind == "toggle":
        return [flag.option if value else "--no-" + flag.option.removeprefix("--")]
    values = value if isinstance(value, list) else [value]
    return [flag.option, *(compact(v) if isinstance(v, dict) else str(v) for v in values)]


def _filled(name: str, text: str, placeholders: Mapping[str, str]) -> str:
    # JSON has braces of its own.
    if text.startswith("{") and text.endswith("}") and ":" in text:
        return text
    for _, field_name, _, _ in string.Formatter().parse(text):
        if field_name is not None and field_name not in placeholders:
            raise PennyError(
                f"env.{name} uses the placeholder {{{field_name}}}; known are: {', '.join(placeholders)}.",
                ExitCode.USAGE,
            )
    return text.format(**placeholders)
