"""The seam machinery: sources found without import, digests compared, refusals in words, proof in a process."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from penny_server.sglang import SeamError, check_seams, features, registry, seams_report
from penny_server.sglang.source import SourceNotFoundError, digest_of, source_of, split_target

MODULE = """\
import functools

LIMIT = 3

if LIMIT:
    CHOSEN = "yes"
else:
    CHOSEN = "no"


class Runner:
    @functools.cache
    def load(self):
        return 1

    def stop(self):
        return 2
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A throw-away package whose import would fail: nothing here may import it."""
    folder = tmp_path / "stockish"
    (folder / "deep").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (folder / "deep" / "__init__.py").write_text("")
    (folder / "deep" / "runner.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "stockish.deep.runner"


def test_source_of_a_method_starts_at_its_decorator(package: str) -> None:
    assert source_of(f"{package}.Runner.load") == (
        "    @functools.cache\n    def load(self):\n        return 1\n"
    )


def test_source_of_an_assignment_is_the_branch_that_comes_last(package: str) -> None:
    assert source_of(f"{package}.LIMIT") == "LIMIT = 3\n"
    assert source_of(f"{package}.CHOSEN") == '    CHOSEN = "no"\n'


def test_digest_is_the_sha256_of_the_source(package: str) -> None:
    assert digest_of(f"{package}.LIMIT") == hashlib.sha256(b"LIMIT = 3\n").hexdigest()[:16]


@pytest.mark.parametrize("name", ["Runner.gone", "gone", "Runner.load.inner"])
def test_a_name_that_is_not_defined(package: str, name: str) -> None:
    with pytest.raises(SourceNotFoundError, match="defines no"):
        source_of(f"{package}.{name}")


def test_a_module_that_is_not_there() -> None:
    with pytest.raises(SourceNotFoundError):
        split_target("no_such_package.module.name")


def test_every_seam_fits_the_pinned_sglang() -> None:
    assert {(s.name, s.state) for s in seams_report()} == {(s.name, "fits") for s in registry.all_seams()}
    check_seams(features())


def test_seam_names_are_unique_and_begin_with_their_feature() -> None:
    names = [s.name for s in registry.all_seams()]
    assert len(set(names)) == len(names)
    assert all(s.name.startswith(f"{s.feature}.") and s.summary for s in registry.all_seams())


def test_changed_source_names_seam_expected_and_found_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    seam = replace(registry.all_seams()[0], digest="0123456789abcdef")
    monkeypatch.setattr(registry, "all_seams", lambda: (seam,))
    with pytest.raises(SeamError) as error:
        check_seams([seam.feature])
    for part in (seam.name, seam.target, "0123456789abcdef", digest_of(seam.target), "0.5.23"):
        assert part in str(error.value)
    assert seams_report()[0].state == "changed"


def test_missing_target_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    seam = replace(registry.all_seams()[0], target="sglang.srt.plugins.gone_function")
    monkeypatch.setattr(registry, "all_seams", lambda: (seam,))
    with pytest.raises(SeamError, match="gone_function is gone from"):
        check_seams([seam.feature])
    assert (seams_report()[0].state, seams_report()[0].found) == ("missing", "")


def test_wrong_sglang_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.importlib.metadata, "version", lambda name: "0.5.20")
    with pytest.raises(SeamError, match=r"built for sglang 0\.5\.23 and found 0\.5\.20.*pip install"):
        check_seams([])


def test_unknown_feature_lists_the_known_ones() -> None:
    with pytest.raises(SeamError, match=r"'warp'.*cpu"):
        check_seams(["warp"])


def test_active_needs_every_process_of_the_seam(tmp_path: Path) -> None:
    seam = next(s for s in registry.all_seams() if s.roles == ("main", "scheduler"))
    lines = [{"pid": 1, "role": "main", "seams": [seam.name]}]
    file = tmp_path / registry.ACTIVE_FILE
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    state = {s.name: s for s in seams_report(tmp_path)}[seam.name]
    assert (state.state, state.processes) == ("fits", ("main",))
    with file.open("a") as out:
        out.write(json.dumps({"pid": 2, "role": "scheduler", "seams": [seam.name]}) + "\n")
    state = {s.name: s for s in seams_report(tmp_path)}[seam.name]
    assert (state.state, state.processes) == ("active", ("main", "scheduler"))


def run_plugin(tmp_path: Path, body: str, **env: str) -> subprocess.CompletedProcess[str]:
    code = f"from penny_server.sglang import plugin, registry\n{body}\nplugin.load()\nprint('went on')\n"
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PENNY_")}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**clean, "PENNY_RUN_DIR": str(tmp_path), **env},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_without_features_the_plugin_imports_nothing_and_changes_nothing(tmp_path: Path) -> None:
    body = "import sys\nplugin.load()\nassert not any(m.split('.')[0] in ('sglang', 'torch') for m in sys.modules)"
    done = run_plugin(tmp_path, body)
    assert (done.returncode, done.stdout) == (0, "went on\n"), done.stderr
    assert not list(tmp_path.iterdir())


def test_features_without_the_plugin_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from penny_server.sglang import plugin

    monkeypatch.setattr(plugin, "_called", False)
    monkeypatch.delenv("PENNY_FEATURES", raising=False)
    plugin.require_loaded()
    monkeypatch.setenv("PENNY_FEATURES", "cpu")
    monkeypatch.setenv("SGLANG_PLUGINS", "other")
    with pytest.raises(SeamError, match=r"no seam is active: SGLANG_PLUGINS is 'other' and must name penny"):
        plugin.require_loaded()
    monkeypatch.setattr(plugin, "_called", True)
    plugin.require_loaded()


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"sampling_backend": "flashinfer"}, "sampling_backend pytorch, and this is flashinfer"),
        ({"tokenizer_worker_num": 2}, "tokenizer_worker_num is 2"),
    ],
)
def test_settings_that_a_feature_does_not_work_with(changed: dict, part: str) -> None:
    from penny_server.sglang.launch import check_settings

    settings = {"sampling_backend": "pytorch", "tokenizer_worker_num": 1}
    check_settings(SimpleNamespace(**settings), ("seeds",))
    check_settings(SimpleNamespace(**settings | changed), ())
    with pytest.raises(ValueError, match=part):
        check_settings(SimpleNamespace(**settings | changed), ("seeds",))


def test_pool_refusals_name_what_was_asked_and_what_fits() -> None:
    from penny_server.sglang.seams.pools import refusal, requests_refusal

    assert refusal(None, 10) is None
    assert refusal(10, 10) is None
    assert "max_total_tokens is 11, and 10 tokens fit" in (refusal(11, 10) or "")
    assert requests_refusal(None, 8, 64) is None
    assert requests_refusal(8, 8, 64) is None
    assert "max_running_requests is 64, and they serve 12" in (requests_refusal(64, 12, 64) or "")


def test_a_seed_of_its_own_is_the_same_on_every_rank_and_differs_by_request() -> None:
    from penny_server.sglang.seams.seeds import _seed_of

    def request(rid: str, seed: int | None = None) -> SimpleNamespace:
        return SimpleNamespace(rid=rid, sampling_params=SimpleNamespace(sampling_seed=seed))

    assert _seed_of(request("a", 7)) == _seed_of(request("b", 7)) == 7
    assert _seed_of(request("a")) == _seed_of(request("a")) != _seed_of(request("b"))
    assert all(0 <= _seed_of(request(str(i))) < 2**63 for i in range(100))


BREAK = """
from dataclasses import replace
seam = replace(registry.all_seams()[0], {change})
registry.all_seams = lambda: (seam,)
"""


@pytest.mark.parametrize(
    ("change", "part"),
    [("digest='0' * 16", "expected digest 0000000000000000"), ("probe=lambda: False", "did not take")],
)
def test_a_seam_that_does_not_fit_or_take_ends_the_process(tmp_path: Path, change: str, part: str) -> None:
    env = {"PENNY_FEATURES": registry.all_seams()[0].feature, "SGLANG_USE_CPU_ENGINE": "1"}
    done = run_plugin(tmp_path, BREAK.format(change=change), **env)
    assert done.returncode == 3
    assert "went on" not in done.stdout
    assert part in done.stderr
    event = json.loads((tmp_path / "events.jsonl").read_text().splitlines()[-1])
    assert event["state"] == "fail"
    assert part in event["detail"]["message"]
    assert event["detail"]["exit_code"] == 3
