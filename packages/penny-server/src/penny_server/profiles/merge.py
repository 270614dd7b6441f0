"""Puts the layers of a profile and of the person who starts it on top of each other, and notes who set what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penny_server.errors import ExitCode, PennyError
from penny_server.nearest import did_you_mean
from penny_server.profiles.options import JSON, OPTIONS, TURNED_OFF, Draft, implied_needs
from penny_server.profiles.overrides import Overrides
from penny_server.profiles.schema import Device, Profile
from penny_server.profiles.speculation import CHAIN

OFF_SWITCHES: Mapping[str, str] = {
    "speculative_algorithm": "speculative_",
    "enable_hierarchical_cache": "hicache_",
}
"""Arguments that, turned off in a layer, take along what weaker layers say about them."""


@dataclass
class Merged:
    """The result of all layers: settings, where each comes from, and the unbuilt features that are in use."""

    draft: Draft = field(default_factory=Draft)
    options: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()

    def add(self, layer: Overrides, sources: Mapping[str, str] | None = None) -> None:
        """Puts ``layer`` on top; ``sources`` names the origin of single keys."""
        origin = sources or {}
        for switch, prefix in OFF_SWITCHES.items():
            if switch in layer.sglang and not layer.sglang[switch]:
                for key in [key for key in self.draft.sglang if key.startswith(prefix)]:
                    self._drop("sglang", self.draft.sglang, key)
        # The chain length and the verify width are one choice: whoever names one means both.
        if set(layer.sglang) & set(CHAIN):
            for key in set(CHAIN) - set(layer.sglang):
                self._drop("sglang", self.draft.sglang, key)
        for key, value in layer.sglang.items():
            self._put("sglang", self.draft.sglang, key, value, origin.get(f"sglang.{key}", layer.origin))
        for key, value in layer.env.items():
            self._put("env", self.draft.env, key, value, origin.get(f"env.{key}", layer.origin))
        for key, value in layer.options.items():
            source = origin.get(f"options.{key}", layer.origin)
            self._put("options", self.options, key, value, source)
            if value is not None:
                self._apply(key, value, source)
        # An argument named beside an option keeps its value, so that a contradiction shows.
        for key, value in layer.sglang.items():
            if value is not None and key not in JSON and self.draft.sglang.get(key) != value:
                self._put("sglang", self.draft.sglang, key, value, origin.get(f"sglang.{key}", layer.origin))

    def _apply(self, key: str, value: Any, source: str) -> None:
        before_sglang, before_env = dict(self.draft.sglang), dict(self.draft.env)
        OPTIONS[key].apply(self.draft, value)
        for table, now, before in (
            ("sglang", self.draft.sglang, before_sglang),
            ("env", self.draft.env, before_env),
        ):
            for name in now:
                if now[name] != before.get(name):
                    self.origins[f"{table}.{name}"] = f"{key} ({source})"

    def _put(self, table: str, values: dict[str, Any], key: str, value: Any, origin: str) -> None:
        if value is None:
            self._drop(table, values, key)
        else:
            values[key] = value
        self.origins[f"{table}.{key}"] = origin

    def _drop(self, table: str, values: dict[str, Any], key: str) -> None:
        values.pop(key, None)
        self.origins.pop(f"{table}.{key}", None)


def merge(
    profile: Profile, device: Device, layers: Sequence[Overrides], without: Iterable[str] = ()
) -> Merged:
    """All layers of ``profile`` on ``device`` with ``layers`` of the person on top, weakest first.

    Later wins: the profile's common settings, its device section, its unbuilt features (or what holds without
    them), its settings for several GPUs, ``layers``. Raises PennyError (usage).
    """
    dropped = tuple(without)
    section = profile.section(device)
    merged = Merged()
    merged.add(_layer({"served_model_name": profile.name}, origin="the profile's name"))
    merged.add(_layer(profile.sglang, profile.env, profile.options, _named(profile)), profile.sources)
    merged.add(
        _layer(section.sglang, section.env, origin=f"{_named(profile)} [{device}]"),
        _prefixed(profile.sources, device),
    )
    for name, need in profile.needs.items():
        chosen, label = (need.without, f"without {name}") if name in dropped else (need, f"needs {name}")
        merged.add(_layer(chosen.sglang, chosen.env, origin=f"{_named(profile)}, {label}"))
    gpus = _tensor_parallel(merged, layers)
    if gpus != 1:
        if gpus not in profile.tp:
            fits = ", ".join(map(str, sorted({1, *profile.tp})))
            raise PennyError(
                f"tp_size is {gpus}, and the profile {profile.name} is made for {fits} GPU{'s' * (fits != '1')}.",
                ExitCode.USAGE,
            )
        several = profile.tp[gpus]
        merged.add(_layer(several.sglang, several.env, origin=f"{_named(profile)}, {gpus} GPUs"))
    for layer in layers:
        merged.add(layer)
    _refuse_unneeded(profile, dropped, merged)
    for name in set(dropped) & set(TURNED_OFF):
        option, value = TURNED_OFF[name]
        merged.add(Overrides(options={option: value}, origin=f"--without {name}"))
    asked = [name for name in profile.needs if name not in dropped]
    merged.needs = tuple(dict.fromkeys([*asked, *implied_needs(merged.options)]))
    return merged


def _layer(
    sglang: Mapping[str, Any],
    env: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    origin: str = "",
) -> Overrides:
    def cleared(table: Mapping[str, Any]) -> dict[str, Any]:
        return {key: None if value == "" else value for key, value in table.items()}

    return Overrides(cleared(sglang), cleared(env or {}), cleared(options or {}), origin)


def _named(profile: Profile) -> str:
    return f"profile {profile.name}"


def _prefixed(sources: Mapping[str, str], table: str) -> dict[str, str]:
    start = f"{table}."
    return {
        key.removeprefix(start): f"{name} [{table}]" for key, name in sources.items() if key.startswith(start)
    }


def _tensor_parallel(merged: Merged, layers: Sequence[Overrides]) -> int:
    stated = [merged.draft.sglang.get("tp_size"), *(layer.sglang.get("tp_size") for layer in layers)]
    return int([1, *(value for value in stated if value is not None)][-1])


def _refuse_unneeded(profile: Profile, dropped: Iterable[str], merged: Merged) -> None:
    needed = (*profile.needs, *implied_needs(merged.options))
    for name in dropped:
        if name not in needed:
            known = f"it needs {', '.join(needed)}." if needed else "it needs nothing that is not built."
            raise PennyError(
                f"--without {name}: the profile {profile.name} does not need that; {known}",
                ExitCode.USAGE,
                did_you_mean(name, needed),
            )
