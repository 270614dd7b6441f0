"""The acceptance of a server's drafts under watch: what it is held against, its metrics, and the line in the log."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from penny_spec.guard import Alarm, Expectation, Guard, Watched

logger = logging.getLogger(__name__)

ENV = "PENNY_ACCEPTANCE"
"""A file of calibrated rates; without it the token map's manifest, then the draft's or model's ``results.json``."""
UNKNOWN = (0.2, 0.99)
"""Without a calibration: rates of every position from a poor draft to a nearly perfect one. Only a draft that is
(nearly) stuck, at nothing accepted or at everything, then raises an alarm."""
ALARMS = ("low", "pinned")


def calibration(token_map: str | None, draft: str | None, model: str) -> tuple[Path, Expectation] | None:
    """The first calibration that there is, and its file.

    Raises ValueError for the file of `ENV` that holds none, OSError when it cannot be read.
    """
    asked = os.environ.get(ENV)
    if asked:
        return Path(asked), Expectation.read(Path(asked))
    places = [Path(folder) / "results.json" for folder in (draft, model) if folder]
    if token_map:
        from penny_spec import frspec

        places.insert(0, frspec.manifest_path(Path(token_map)))
    for place in places:
        if place.is_file():
            try:
                return place, Expectation.read(place)
            except ValueError as error:
                logger.info("No acceptance is calibrated in %s: %s", place, error)
    return None


def unknown(positions: int) -> Expectation:
    """The expectation of a draft of which nothing is known, for ``positions`` draft tokens."""
    return Expectation({f"any/{rate:g}": (rate,) * positions for rate in UNKNOWN})


class Metrics(Protocol):
    """Where the state of the guard is shown."""

    def verified(self, verifies: int, accepted: int, state: Watched) -> None:
        """Some verifications and their accepted draft tokens came in, and the guard's state after them."""


class Prometheus:
    """`Metrics` on the server's ``/metrics`` page."""

    def __init__(self) -> None:
        from prometheus_client import Counter, Gauge

        self._verifies = Counter("penny_spec_verifies", "Verifications, each of one request's draft tokens.")
        self._accepted = Counter("penny_spec_accepted_tokens", "Draft tokens that the target accepted.")
        self._length = Gauge(
            "penny_spec_acceptance_length",
            "Running mean of tokens per verification over the calibrated draft positions.",
            multiprocess_mode="mostrecent",
        )
        self._alarm = Gauge(
            "penny_spec_alarm",
            "1 while acceptance is far below its calibration (low) or stuck at nothing or everything (pinned).",
            ["kind"],
            multiprocess_mode="mostrecent",
        )
        self._show("ok")

    def verified(self, verifies: int, accepted: int, state: Watched) -> None:
        """Counts and shows."""
        self._verifies.inc(verifies)
        self._accepted.inc(accepted)
        self._length.set(state.length)
        if state.alarm != self._shown:
            self._show(state.alarm)

    def _show(self, alarm: Alarm) -> None:
        self._shown = alarm
        for kind in ALARMS:
            self._alarm.labels(kind).set(kind == alarm)


class Watch:
    """The guard of one server process. Each alarm is one warning in the log; it stays until the server is restarted."""

    def __init__(self, guard: Guard, metrics: Metrics | None, warn: Callable[[str], None]) -> None:
        self.guard = guard
        self.state = guard.start()
        self._metrics = metrics
        self._warn = warn

    def observe(self, width: int, accepted: Sequence[tuple[int, int]]) -> None:
        """Takes the verifications of one forward: ``width`` draft tokens each, ``(request, accepted)`` by request."""
        before = self.state.alarm
        for request, count in accepted:
            self.state = self.guard.observe(self.state, count, width, request)
        if self.state.alarm != before:
            self._warn(self.guard.sentence(self.state))
        if self._metrics is not None and accepted:
            self._metrics.verified(len(accepted), sum(count for _, count in accepted), self.state)


def watch_of(spec: Any, model: str, metrics: bool) -> Watch:
    """The watch for a server's speculation settings (stock's ``get_spec()``)."""
    found = calibration(spec.speculative_token_map, spec.speculative_draft_model_path, model)
    positions = int(spec.speculative_num_draft_tokens) - 1
    expected = found[1] if found else unknown(positions)
    source = f"calibrated in {found[0]}" if found else "not calibrated, so only a stuck draft will be noticed"
    logger.info("The acceptance of drafts is watched; it is %s.", source)
    return Watch(Guard(expected), Prometheus() if metrics else None, logger.warning)
