"""Progress by bytes, by captured sizes and by compiled kernels, and the plan against what a server got."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penny_models import tiny
from penny_server.plan import Plan, cpu, gpu, make_plan, read_settings, read_source, settings_of
from penny_server.profiles import load, load_all, resolve
from penny_server.profiles.asserted import DECIDE, OF_PROFILE, changed, subject
from penny_server.serving.asserting import check_asserts
from penny_server.serving.choose import surroundings
from penny_server.serving.display import built
from penny_server.serving.identity import Identity
from penny_server.serving.phases import Event, Progress
from penny_server.serving.reality import Measured, compare, measured, summary
from penny_server.sglang.builds import BUILDING, BuildLog, Builds, triton_listener
from penny_server.sglang.meter import Throttle, counted, tensor_bytes
from penny_server.sglang.registry import all_seams
from penny_server.sglang.seams.progress import capturing

GIB = 1 << 30


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Reads the events that were emitted so far."""
    folder = tmp_path / "run"
    folder.mkdir()
    monkeypatch.setenv("PENNY_RUN_DIR", str(folder))
    file = folder / "events.jsonl"
    return lambda: [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def shard(file: Path, data: bytes, header: bytes = b"{}") -> None:
    file.write_bytes(len(header).to_bytes(8, "little") + header + data)


def test_bytes_of_the_tensors_are_those_of_the_files_in_the_index(tmp_path: Path) -> None:
    shard(tmp_path / "a.safetensors", b"x" * 100, b'{"long": "header"}')
    shard(tmp_path / "b.safetensors", b"x" * 11)
    assert tensor_bytes(tmp_path) == 111
    index = {"metadata": {"total_size": 5}, "weight_map": {"w": "a.safetensors", "v": "a.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert tensor_bytes(tmp_path) == 100
    assert tensor_bytes(tmp_path / "organisation" / "model") == 0


def test_bytes_of_the_tiny_checkpoint_are_those_of_its_tensors() -> None:
    from safetensors import safe_open

    folder = Path(tiny.path("tiny-27b"))
    total = 0
    for file in folder.glob("*.safetensors"):
        with safe_open(file, "pt") as opened:
            total += sum(opened.get_tensor(name).nbytes for name in opened.keys())  # noqa: SIM118
    assert tensor_bytes(folder) == total


def test_weights_pass_through_and_are_counted(events: Any) -> None:
    given = [(f"w{i}", SimpleNamespace(nbytes=25)) for i in range(4)]
    assert list(counted(iter(given), 100)) == given
    told = [event["detail"] for event in events()]
    assert told[0] == {"bytes": 25, "fraction": 0.25, "of": 100}
    assert told[-1] == {"bytes": 100, "fraction": 1.0, "of": 100}


def test_weights_of_an_unknown_size_have_no_fraction(events: Any) -> None:
    list(counted(iter([("w", SimpleNamespace(nbytes=7))]), 0))
    assert events()[-1]["detail"] == {"bytes": 7}


def test_a_throttle_says_yes_once_in_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("penny_server.sglang.meter.time.monotonic", lambda: now[0])
    throttle, said = Throttle(0.2), []
    for step in range(100):
        now[0] = 100.0 + step / 100
        said.append(throttle.due())
    assert said.count(True) == 5
    assert said[0]


def test_graphs_are_told_the_largest_first(events: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Throttle, "due", lambda throttle: True)
    hook = capturing("capture_bs", "batch", leads=lambda: True)
    runner = SimpleNamespace(capture_bs=[1, 2, 4, 8])
    for size in (8, 4, 4, 2, 1):  # stock goes through variants of a size one after the other
        assert hook(runner, size, None, None, None) is None
    hook(runner, 16)
    assert [event["detail"]["fraction"] for event in events()] == [0, 0.25, 0.25, 0.5, 0.75]
    assert events()[-1]["detail"]["note"] == "batch 1, 3 of 4 captured"
    assert {event["phase"] for event in events()} == {"graphs"}


def test_only_the_first_rank_tells(events: Any) -> None:
    capturing("capture_num_tokens", "tokens", leads=lambda: False)(SimpleNamespace(capture_num_tokens=[4]), 4)
    assert events() == []


def test_compiled_kernels_are_counted_and_cached_ones_are_not(
    events: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Throttle, "due", lambda throttle: True)
    heard: list[bool] = []
    listen = triton_listener(Builds(), before=lambda **found: heard.append(found["cache_hit"]))
    for cached in (False, True, False):
        listen(
            src=SimpleNamespace(name="_fwd"),
            metadata={},
            metadata_group={},
            times=SimpleNamespace(total=1_500_000),
            cache_hit=cached,
        )
    assert heard == [False, True, False]
    assert [event["detail"] for event in events()] == [
        {"built": 1, "seconds": 1.5, "name": "_fwd"},
        {"built": 2, "seconds": 3.0, "name": "_fwd"},
    ]
    progress = Progress(0.0)
    for event in events():
        progress.apply(Event(1.0, event["phase"], event["state"], event["detail"]))
    assert built(progress) == "2 kernels compiled in 3 s; the next start finds them in the caches."
    assert [phase.state for phase in progress.phases][:2] == ["running", "waiting"]


def test_flashinfer_says_what_it_compiles(events: Any) -> None:
    logger = logging.Logger("flashinfer.jit")
    logger.addHandler(BuildLog(Builds()))
    logger.info("Building JIT module %s; this can take several minutes on first use.", "batch_prefill")
    logger.info("something else %s", "x")
    assert [event["detail"]["name"] for event in events()] == ["batch_prefill"]


def test_flashinfer_still_words_its_message_so() -> None:
    from importlib.util import find_spec

    spec = find_spec("flashinfer")
    if spec is None or spec.origin is None:
        pytest.skip("flashinfer is not installed")
    assert f'"{BUILDING} %s' in (Path(spec.origin).parent / "jit" / "core.py").read_text()


def test_a_draft_that_loads_again_shows_its_own_fraction_and_leaves_the_models_size() -> None:
    progress = Progress(0.0)
    weights = progress.phases[2]
    for t, state, detail in (
        (1.0, "begin", {"draft": False}),
        (2.0, "end", {"draft": False, "bytes": 8_000_000}),
        (3.0, "begin", {"draft": True}),
        (4.0, "progress", {"bytes": 1, "of": 4, "fraction": 0.25}),
    ):
        progress.apply(Event(t, "weights", state, detail))
    assert (weights.state, weights.fraction) == ("running", 0.25)
    progress.apply(Event(5.0, "weights", "end", {"draft": True, "bytes": 2_000_000}))
    assert (weights.state, weights.note, weights.seconds(9.0)) == ("done", "8.0 MB", 4.0)
    assert progress.measured["draft, weights"]["bytes"] == 2_000_000


def test_identity_changes_with_every_file_that_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    shard(tmp_path / "m.safetensors", b"x" * 50)
    (tmp_path / "picture.png").write_bytes(b"no part of it")

    def note() -> str:
        return str(list(Identity("Model", (tmp_path,)).events())[-1].detail["note"])

    by_hand = hashlib.sha256(b"config.json\x002\x00{}")
    by_hand.update(b"m.safetensors\x0060\x00" + (tmp_path / "m.safetensors").read_bytes())
    first = note()
    assert first == f"Model, sha256 {by_hand.hexdigest()[:12]} over 0.0 MB in 2 files"
    (tmp_path / "picture.png").write_bytes(b"another")
    assert note() == first
    (tmp_path / "config.json").write_text("[]")
    assert note() != first


def test_of_large_weights_the_header_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penny_server.serving.identity.WHOLE_BYTES", 100)
    shard(tmp_path / "m.safetensors", b"x" * 5000, b'{"w": 1}')
    seen = list(Identity("Model", (tmp_path,)).events())
    assert seen[0].detail["of"] == seen[0].detail["bytes"] == 16
    assert seen[0].detail["fraction"] == 1.0


@pytest.fixture(scope="module")
def tiny_plan() -> Plan:
    folder = Path(tiny.path("tiny-27b"))
    launch = resolve(load("tiny-27b"), "cpu", folder, surroundings())
    return make_plan(read_source(folder, None), settings_of(launch), cpu(8 * GIB))


def on_gpu() -> Plan:
    folder = Path(tiny.path("tiny-27b"))
    args = {
        "page_size": 64,
        "mem_fraction_static": 0.9,
        "max_mamba_cache_size": 64,
        "max_running_requests": 8,
    }
    settings = read_settings(args, {}, {}, frozenset(), "cuda")
    return make_plan(read_source(folder, None), settings, gpu("h200"))


def test_what_was_found_is_read_from_the_events() -> None:
    found = measured(
        {
            "weights": {"bytes": 10, "free_before": 100, "taken": 12},
            "draft, weights": {"bytes": 2, "free_before": 88, "taken": 3},
            "pools": {"tokens": 64, "requests": 2, "slots": 9, "kv": 30, "states": 5},
            "graphs": {"graphs": 4, "free": 20},
            "draft, graphs": {"graphs": 1, "free": 18},
        }
    )
    assert found == Measured(
        weights=10, draft=2, tokens=64, requests=2, slots=9, kv=30, states=5, before=100, taken=15, graphs=5, free=18
    )  # fmt: skip
    assert measured({}) == Measured()


def test_a_server_as_planned_needs_no_explanation(tiny_plan: Plan) -> None:
    # The KV pool: 16,384 tokens and a page of 64 for padding, of 1,024 bytes each.
    rows = compare(tiny_plan, Measured(weights=6_984_520, tokens=16384, slots=64, requests=8, kv=16_842_752))
    assert [(row.name, row.difference, row.why) for row in rows] == [
        (name, 0.0, "")
        for name in ("weights", "KV pool", "KV pool's memory", "recurrent slots", "concurrent requests")
    ]
    assert summary(rows) == ("The KV pool of 16,384 tokens is as planned.",)


def test_a_difference_names_the_term_that_makes_it() -> None:
    plan = on_gpu()
    short = plan.pool.before - 40 * GIB
    tokens = plan.pool.tokens - int(40 * GIB * 0.9) // plan.need.cell
    found = Measured(tokens=tokens, slots=64, before=short, taken=plan.need.loaded + 5 * GIB)
    rows = {row.name: row for row in compare(plan, found)}
    assert rows["KV pool"].why == (
        "free before loading left 36.00 GiB less to the pools; gone after loading left 5.00 GiB less to the pools."
    )
    assert "hold 40.00 GiB more than planned" in rows["free before loading"].why
    assert rows["recurrent slots"].why == ""
    sentences = summary(tuple(rows.values()))
    assert sentences[0].startswith(f"The KV pool of {tokens:,} tokens is -2")
    assert any(sentence.startswith("Gone after loading: ") for sentence in sentences)


def test_memory_of_the_pool_names_a_token_of_another_size(tiny_plan: Plan) -> None:
    (row,) = [
        r for r in compare(tiny_plan, Measured(tokens=16384, kv=2 * 16_842_752)) if r.name.endswith("memory")
    ]
    assert row.why == "A token takes 2,048 bytes, and 1,024 were planned from the heads and the KV dtype."


def test_free_memory_names_what_moved_most() -> None:
    plan = on_gpu()
    graphs = next(line.bytes for line in plan.lines if line.name == "CUDA graphs")
    found = Measured(graphs=graphs + 4 * GIB, free=plan.free - 4 * GIB)
    rows = {row.name: row for row in compare(plan, found)}
    assert rows["free when ready"].why == "Most of it: CUDA graphs left 4.00 GiB less than planned."


FOUND = {"attention, decode": "TritonAttnBackend", "linear attention, decode": "TritonGDNKernel"}
FOUND |= {"KV cache": "bfloat16", "recurrent state": "float32, convolution bfloat16"}


def test_assertions_of_each_kind(tmp_path: Path) -> None:
    launch = resolve(load("tiny-27b"), "cpu", tmp_path, surroundings())
    proven = frozenset({"pools.as-asked", "pools.requests-as-asked"})
    asserts = launch.asserts.model_copy(update={"free_gib": 2.0})
    verdict = check_asserts(
        replace(launch, asserts=asserts),
        Measured(tokens=16384, requests=7, slots=None, free=GIB),
        FOUND,
        proven,
    )
    assert verdict.failed == (
        "[assert] requests: 7 requests can run at once, and at least 8 are asserted.",
        "[assert] recurrent_slots: the server did not say what it has; the profile needs the feature progress.",
        "[assert] free_gib: 1.00 GiB of GPU memory is free, and 2 GiB are asserted.",
        "[assert] backends.attention, *: attention, decode got TritonAttnBackend, and IntelAMXAttnBackend is asserted.",
        "[assert] seams.seeds.per-request: no process has proven this seam active.",
    )
    assert verdict.skipped == ()


@pytest.mark.parametrize(
    ("origin", "lifted"),
    [
        ("profile tiny-27b", False),
        ("profile tiny-27b [cuda]", False),
        ("profile flash-next, needs cache-store", False),
        ("media_device (profile flash-next)", False),
        ("derived", False),
        ("--set", True),
        ("penny.toml", True),
        ("profile flash-next, without cache-store", True),
        ("profile flash-next, 2 GPUs", True),
        ("online_fp8 (--set)", True),
    ],
)
def test_whose_doing_a_setting_is(origin: str, lifted: bool) -> None:
    assert changed("KV cache", {"sglang.kv_cache_dtype": origin}) == ("kv_cache_dtype" if lifted else "")


def test_every_assertion_that_comes_with_a_profile_can_be_judged() -> None:
    seams = {seam.name for seam in all_seams()}
    for profile in load_all():
        for device in profile.devices:
            asserts = profile.asserts.under(profile.section(device).asserts)
            assert {subject(operation) for operation in asserts.backends} <= set(DECIDE)
            assert set(asserts.seams) <= seams
    assert OF_PROFILE.fullmatch("the profile's name")
