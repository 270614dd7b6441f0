"""Draft widths that change while serving: greedy output stays transformers' own, at every width and at every change."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from conftest import Server, start, stop
from prompts import ALL, LONG
from test_greedy import expected

NEW_TOKENS = 96
WIDTHS = {"tiny-27b-nextn": (1, 3), "tiny-27b-dflash2": (3, 7)}
"""Draft tokens to choose from, by profile; more than three requests at once get the first."""


@pytest.fixture(scope="module", params=list(WIDTHS))
def adapting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    few, many = WIDTHS[request.param]
    running = start(
        tmp_path_factory.mktemp(request.param),
        *("--device", "cpu", "--set", "dtype=float32"),
        *("--set", f"adaptive={{1 = [{few}, {many}], 4 = [{few}]}}"),
        profile=request.param,
    )
    yield running
    assert stop(running) == 0


def shown(server: Server) -> dict[str, float]:
    lines = httpx.get(f"{server.url}/metrics/").text.splitlines()
    return {line.split()[0]: float(line.split()[1]) for line in lines if line.startswith("penny_spec")}


def test_greedy_output_is_the_same_while_widths_change(adapting, reference, tokenizer, request) -> None:
    few, many = WIDTHS[request.node.callspec.params["adapting"]]
    prompts = [tokenizer(text)["input_ids"] for text in ALL[:8]]
    wanted = [expected(reference, ids, NEW_TOKENS) for ids in prompts]
    for ids, answer in zip(prompts, wanted, strict=True):
        assert adapting.generate(ids, NEW_TOKENS)["output_ids"] == answer
    healthy = shown(adapting)
    assert healthy["penny_spec_verifies_total"] >= 8 * (NEW_TOKENS - 1) / (many + 1)
    tokens = healthy["penny_spec_verifies_total"] + healthy["penny_spec_accepted_tokens_total"]
    assert tokens >= 8 * (NEW_TOKENS - 1)
    assert healthy['penny_spec_alarm{kind="low"}'] == healthy['penny_spec_alarm{kind="pinned"}'] == 0

    # From one stream to eight and back: the width changes under requests that go on.
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda ids: adapting.generate(ids, NEW_TOKENS)["output_ids"], prompts))
    assert found == wanted
    assert adapting.generate(prompts[0], NEW_TOKENS)["output_ids"] == wanted[0]
    assert shown(adapting)["penny_spec_width_switches_total"] >= 2

    # Nearly even draws are seldom what was drafted: the width falls, and nothing of it is in the calibration.
    for ids in prompts:
        adapting.generate(ids, NEW_TOKENS, temperature=5.0)
    drawn = shown(adapting)
    assert drawn["penny_spec_width"] == few
    assert drawn['penny_spec_alarm{kind="low"}'] + drawn['penny_spec_alarm{kind="pinned"}'] == 1
    assert "far below the expectation" in (adapting.run_dir / "server.log").read_text()
    status = subprocess.run(
        [str(Path(sys.executable).with_name("penny")), "status", "--log-dir", str(adapting.run_dir.parent)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "not what was calibrated" in " ".join(status.stdout.split())

    for ids, answer in zip(prompts, wanted, strict=True):
        assert adapting.generate(ids, NEW_TOKENS)["output_ids"] == answer
    repeated = tokenizer(LONG[1])["input_ids"]
    adapting.generate(repeated, NEW_TOKENS)
    assert shown(adapting)["penny_spec_width"] == many
