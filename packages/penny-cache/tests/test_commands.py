"""The `penny-cache` command over stores whose content the tests know."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
import xxhash
from prometheus_client.parser import text_string_to_metric_families

from penny_cache import namespace
from penny_cache.cli import main
from penny_cache.commands import later, units
from penny_cache.namespace import MANIFEST_NAME, Identity, Namespace
from penny_cache.store import Digest, Settings, Store, chain, open_store

SMALL = Settings(segment_bytes=64 * 4096, write_memory=1 << 20, read_memory=1 << 20)
KEYS = list(chain(bytes([i]) for i in range(12)))
SIDE = list(chain((b"x", b"y"), start=b"side"))
LOST = Digest(b"\7" * 32)


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> object:
        return json.loads(self.out)


Run = Callable[..., Done]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str | Path, width: int = 200) -> Done:
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setattr(sys, "argv", ["penny-cache", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return Done(code, out, err)

    return call


def parts(number: int) -> dict[str, bytes]:
    draw = random.Random(number)
    return {"kv": draw.randbytes(5000), "state": draw.randbytes(100)}


@pytest.fixture
def here(tmp_path: Path) -> Namespace:
    """12 bundles in a chain, 2 that branch off after the fifth, one whose parent is missing; 6 blocks each."""
    here = namespace.ensure(tmp_path / "root", Identity.of("tiny", {"page": 64}))
    with open_store(here, settings=SMALL) as store:
        for i, key in enumerate(KEYS):
            store.put(key, parts(i), KEYS[i - 1] if i else None, wait=30).wait()
        store.put(SIDE[0], parts(20), KEYS[4], wait=30).wait()
        store.put(SIDE[1], parts(21), SIDE[0], wait=30).wait()
        store.put(Digest(b"\1" * 32), parts(22), LOST, wait=30).wait()
    return here


def hurt(here: Namespace, key: bytes) -> tuple[int, int]:
    """Change a byte of a bundle's first payload; its segment and block."""
    with open_store(here, writable=False) as store:
        [row] = [row for row in store.survey().rows if row["key"].tobytes() == key]
    segment, block = int(row["segment"]), int(row["offset"])
    with (here.path / f"{segment:08d}.segment").open("r+b") as file:
        file.seek((block + 1) * 4096 + 99)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))
    return segment, block


def test_ls(run: Run, here: Namespace) -> None:
    done = run("ls", here.path, "--json")
    listed = [json.loads(line) for line in done.out.splitlines()]
    assert [one["key"] for one in listed] == [key.hex() for key in (*KEYS, *SIDE, b"\1" * 32)]
    segment = {"segment": 1, "block": 1, "blocks": 6}
    assert listed[0] == {
        "key": KEYS[0].hex(), "parent": None, "parts": {"kv": 5000, "state": 100}, **segment,
    }  # fmt: skip
    # 63 blocks after the first hold ten bundles of six.
    assert [(one["segment"], one["block"]) for one in listed[9:11]] == [(1, 55), (2, 1)]
    assert listed[12]["parent"] == KEYS[4].hex()
    table = run("ls", here.path.parent, "--limit", "2").out.splitlines()
    assert table[0].split() == ["key", "parent", "segment", "block", "parts"]
    assert table[1].split() == [KEYS[0].hex()[:12], "-", "1", "1", "kv", "4.9", "KiB,", "state", "100", "B"]
    assert table[2].split()[:2] == [KEYS[1].hex()[:12], KEYS[0].hex()[:12]]
    assert table[3:] == ["The store has 15 bundles; --limit 0 shows all."]
    assert len(run("ls", here.path, "--limit", "0").out.splitlines()) == 16
    assert len(run("ls", here.path, "--limit", "3", "--json").out.splitlines()) == 3


def test_ls_tree(run: Run, here: Namespace) -> None:
    def short(key: bytes) -> str:
        return key.hex()[:12]

    assert run("ls", "--tree", here.path).out.splitlines() == [
        f"{short(KEYS[0])} … {short(KEYS[4])}  5 bundles  120.0 KiB",
        f"├── {short(KEYS[5])} … {short(KEYS[11])}  7 bundles  168.0 KiB",
        f"└── {short(SIDE[0])} … {short(SIDE[1])}  2 bundles  48.0 KiB",
        f"010101010101  1 bundle  24.0 KiB  parent {short(LOST)} missing",
    ]
    runs = [json.loads(line) for line in run("ls", "--tree", "--json", here.path).out.splitlines()]
    assert [(one["on"], one["bundles"], one["bytes"]) for one in runs] == [
        (None, 5, 5 * 6 * 4096), (0, 7, 7 * 6 * 4096), (0, 2, 2 * 6 * 4096), (None, 1, 6 * 4096),
    ]  # fmt: skip
    assert runs[3]["missing_parent"] == LOST.hex()


def test_stat(run: Run, here: Namespace) -> None:
    """CP-13: the hole shows."""
    found = run("stat", here.path, "--json").json
    assert isinstance(found, dict)
    files = [p.stat() for p in here.path.glob("0*")]
    snapshot = (here.path / "snapshot").stat()
    assert found == {
        "path": str(here.path), "name": "tiny", "sha256": here.identity.digest,
        "bundles": 15, "chains": 1, "tails": 3, "branch_points": 1, "depth": 12, "holes": 1, "stranded": 1,
        "parts": {"kv": {"count": 15, "size": 75000}, "state": {"count": 15, "size": 1500}},
        "given_up": {"count": 0, "size": 0}, "logical": 76500, "images": 15 * 6 * 4096,
        "files": sum(s.st_size for s in files), "allocated": sum(s.st_blocks * 512 for s in [*files, snapshot]),
        "sealed": 2, "unsealed": 0, "dropped": 0, "unreadable": 0,
    }  # fmt: skip
    lines = run("stat", here.path).out.splitlines()
    assert "holes          1                  1 bundles behind them are of no use" in lines
    assert "  kv           73.2 KiB           in 15 bundles" in lines
    (here.path / "00000002.index").unlink()
    assert run("stat", here.path, "--json").json["unsealed"] == 1  # type: ignore[index]


def test_stat_prometheus(run: Run, here: Namespace) -> None:
    text = run("stat", here.path, "--prometheus").out
    values = {s.name: s.value for f in text_string_to_metric_families(text) for s in f.samples}
    assert (values["penny_cache_bundles"], values["penny_cache_holes"], values["penny_cache_depth"]) == (
        15,
        1,
        12,
    )


def test_an_empty_store(run: Run, tmp_path: Path) -> None:
    empty = namespace.ensure(tmp_path / "root", Identity.of("m", {})).path
    assert run("ls", empty).out == "There are no bundles.\n"
    assert (run("ls", empty, "--json").out, run("ls", empty, "--tree", "--json").out) == ("", "")
    assert run("stat", empty, "--json").json["bundles"] == 0  # type: ignore[index]
    assert run("verify", empty).code == 0
    assert list(empty.iterdir()) == [empty / MANIFEST_NAME]  # reading leaves nothing behind


def test_verify_whole(run: Run, here: Namespace) -> None:
    before = {p: p.read_bytes() for p in here.path.iterdir()}
    done = run("verify", here.path, "--json")
    found = done.json
    assert isinstance(found, dict)
    assert (done.code, found["bundles"], found["bytes"], found["damaged"]) == (0, 15, 15 * 6 * 4096, [])
    assert re.fullmatch(r"Whole: 15 bundles, 360\.0 KiB in \d+\.\d s, .*/s\.\n", run("verify", here.path).out)
    assert {p: p.read_bytes() for p in here.path.iterdir()} == before


def test_verify_names_what_is_damaged_and_repair_forgets_it(run: Run, here: Namespace) -> None:
    hit = {KEYS[2]: hurt(here, KEYS[2]), KEYS[3]: hurt(here, KEYS[3]), SIDE[1]: hurt(here, SIDE[1])}
    expected = [
        {"key": key.hex(), "segment": segment, "block": block, "why": "part kv: its checksum does not fit"}
        for key, (segment, block) in hit.items()
    ]
    for _ in range(2):  # reading changes nothing
        done = run("verify", here.path, "--json")
        found = done.json
        assert isinstance(found, dict)
        assert (done.code, found["bundles"], found["damaged"]) == (1, 12, expected)
    shown = run("verify", here.path)
    assert shown.err == ""
    assert [line.split()[:3] for line in shown.out.splitlines()[1:4]] == [
        [key.hex()[:12], str(segment), str(block)] for key, (segment, block) in hit.items()
    ]
    assert shown.out.splitlines()[-1] == "Damaged: 3; --repair forgets them."
    repaired = run("verify", here.path, "--repair")
    assert (repaired.code, repaired.out.splitlines()[-1]) == (1, "Damaged: 3; now forgotten.")
    after = run("verify", here.path, "--json")
    found = after.json
    assert isinstance(found, dict)
    assert (after.code, found["bundles"], found["damaged"]) == (0, 12, [])
    with open_store(here) as store:
        assert store.match(KEYS) == 2
        assert {name: bytes(v) for one in store.load(KEYS[11:]) for name, v in one.parts.items()} == parts(11)


def test_verify_beside_a_writer_that_gives_up_bundles(
    run: Run, here: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is gone is not damaged."""
    from penny_cache.commands import verify

    real = verify.read_all

    def meanwhile(store, where, tell):  # type: ignore[no-untyped-def]
        with open_store(here, settings=SMALL) as writer:
            writer.forget([KEYS[11], SIDE[1]])
            writer.put(KEYS[0], parts(30), wait=30).wait()
        return real(store, where, tell)

    monkeypatch.setattr(verify, "read_all", meanwhile)
    done = run("verify", here.path, "--json")
    found = done.json
    assert isinstance(found, dict)
    assert (done.code, found["damaged"]) == (0, [])
    assert found["bundles"] + found["gone"] == 15
    assert found["gone"] >= 2


def test_gc_of_a_store(run: Run, here: Namespace) -> None:
    before = sum(p.stat().st_blocks * 512 for p in here.path.glob("[0s]*"))
    dry = run("gc", here.path, "--free", "48K", "--dry-run", "--json").json
    assert isinstance(dry, dict)
    # Two whole bundles of 24 KiB.
    assert (dry["bundles"], dry["snapshots"], dry["before"], dry["wanted"]) == (
        2,
        0,
        before,
        before - 48 * 1024,
    )
    assert len(run("ls", here.path, "--json").out.splitlines()) == 15
    before -= (here.path / "snapshot").stat().st_blocks * 512  # which no writer has
    done = run("gc", here.path, "--free", "48K", "--json")
    found = done.json
    assert isinstance(found, dict)
    after = sum(p.stat().st_blocks * 512 for p in here.path.glob("0*"))
    assert (done.code, found["before"], found["after"]) == (0, before, after)
    assert after <= before - 48 * 1024
    assert len(run("ls", here.path, "--json").out.splitlines()) == 15 - found["bundles"] < 15
    assert run("verify", here.path).code == 0


def test_gc_takes_snapshots_inside_chains_first(run: Run, here: Namespace) -> None:
    # Of 15 states those at the ends of the three runs and at the branch point stay: 8 KiB of header and payload each
    # where only the payload's 4 KiB come free.
    done = run("gc", here.path, "--free", "16K", "--snapshots", "state", "--dry-run", "--json").json
    assert isinstance(done, dict)
    assert (done["bundles"], done["snapshots"]) == (0, 4)
    run("gc", here.path, "--free", "16K", "--snapshots", "state")
    found = run("stat", here.path, "--json").json
    assert isinstance(found, dict)
    assert (found["bundles"], found["given_up"]["count"] >= 4) == (15, True)


def test_gc_from_nothing_to_everything(run: Run, here: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("gc", here.path).code == 2
    assert run("gc", here.path, "--budget", "1G").out.startswith("Gone: 0 bundles and 0 snapshots;")
    with monkeypatch.context() as patch:
        patch.setattr(Store, "collect", lambda store, size: 0)  # all pinned, say
        stuck = run("gc", here.path, "--budget", "0")
    assert (stuck.code, stuck.out.splitlines()[1]) == (1, "No more may go; 0 B were wanted.")
    assert run("gc", here.path, "--budget", "0").code == 0
    assert run("ls", here.path).out == "There are no bundles.\n"


def test_export_and_import(run: Run, here: Namespace, tmp_path: Path) -> None:
    archive, root = tmp_path / "a.archive", tmp_path / "new"
    done = run("export", here.path, archive, "--json")
    assert (done.code, done.json) == (0, {"bundles": 15, "bytes": 15 * 6 * 4096, "lost": 0})
    assert archive.stat().st_mode & 0o777 == 0o600
    assert (
        run("export", here.path, archive).err
        == f"penny-cache: {archive} is there already; --force replaces it.\n"
    )
    assert run("export", here.path, archive, "--force").code == 0
    brought = run("import", archive, root, "--new", "--json")
    target = root / here.path.name
    assert brought.json == {"path": str(target), "stored": 15, "there": 0, "lost": 0, "problems": []}
    assert run("import", archive, root).out == f"Stored 0 bundles in {target}. There already: 15.\n"
    assert run("verify", root, "--json").json["bundles"] == 15  # type: ignore[index]
    with open_store(namespace.read(target)) as store:
        for i, key in enumerate(KEYS):
            assert [{n: bytes(v) for n, v in one.parts.items()} for one in store.load([key])] == [parts(i)]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.archive", "new", "root"]


def test_export_of_one_chain(run: Run, here: Namespace, tmp_path: Path) -> None:
    archive = tmp_path / "a"
    assert run("export", here.path, archive, "--chain", SIDE[1].hex()[:10], "--json").json == {
        "bundles": 7, "bytes": 7 * 6 * 4096, "lost": 0,
    }  # fmt: skip
    none = run("export", here.path, tmp_path / "b", "--chain", "zz")
    assert (none.code, (tmp_path / "b").exists()) == (2, False)
    assert "0 bundles of" in none.err


def test_import_refuses_another_identity_by_its_fields(run: Run, here: Namespace, tmp_path: Path) -> None:
    archive = tmp_path / "a"
    run("export", here.path, archive)
    other = namespace.ensure(tmp_path / "other", Identity.of("tiny", {"page": 32}))
    done = run("import", archive, tmp_path / "other")
    assert done.code == 2
    assert f"another namespace than {other.path}: page is 32 (there) and 64 (archive)." in done.err
    assert not list(other.path.glob("*.segment"))
    assert run("import", archive, tmp_path / "other", "--new").code == 0
    assert len(list((tmp_path / "other").iterdir())) == 2


def test_import_of_a_broken_file_takes_what_is_whole(run: Run, here: Namespace, tmp_path: Path) -> None:
    archive = tmp_path / "a"
    run("export", here.path, archive)
    data = bytearray(archive.read_bytes())
    data[2 * 4096 + 6 * 4096 * 3 + 5000] ^= 1  # the fourth bundle's first part
    archive.write_bytes(data[: len(data) - 3 * 4096])  # and the end, with half of the last bundle
    done = run("import", archive, tmp_path / "new", "--new")
    assert done.code == 1
    assert done.out.splitlines()[1:] == [
        f"{archive} ends early: its last block is not there.",
        f"{archive} lacks 2 of its 15 bundles: they are damaged or missing.",
    ]
    assert run("verify", tmp_path / "new", "--json").json["bundles"] == 13  # type: ignore[index]


def test_export_to_a_pipe_and_import_from_it(here: Namespace, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from penny_cache.cli import main; main()"]
    out = subprocess.run([*command, "export", str(here.path), "-"], capture_output=True, check=True)
    assert out.stderr == b"Wrote 15 bundles, 360.0 KiB, to stdout.\n"
    done = subprocess.run(
        [*command, "import", "-", str(tmp_path / "new"), "--new", "--json"],
        input=out.stdout,
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout)["stored"] == 15
    assert done.stderr == b""


def test_which_store_a_path_means(run: Run, here: Namespace, tmp_path: Path) -> None:
    root = here.path.parent
    same = [run("stat", path, "--json").json for path in (root, here.path)]
    assert same[0] == same[1]

    def said(path: Path) -> str:
        done = run("stat", path)
        assert (done.code, done.out) == (2, "")
        assert done.err.count("\n") == 1
        return done.err.removeprefix("penny-cache: ").rstrip("\n")

    assert said(tmp_path) == f"{tmp_path} is not a store: there is no namespace of penny-cache in it."
    assert (
        said(tmp_path / "no") == f"The store {tmp_path / 'no'} cannot be opened: No such file or directory."
    )
    (tmp_path / "link").symlink_to(root)
    assert said(tmp_path / "link") == f"{tmp_path / 'link'} is a symbolic link; give the directory itself."
    file = here.path / MANIFEST_NAME
    assert said(file) == f"{file} is not a directory; give the directory of a namespace."
    second = namespace.ensure(root, Identity.of("tiny", {"page": 32})).path
    names = ", ".join(sorted((here.path.name, second.name)))
    assert said(root) == f"{root} holds 2 namespaces; give the directory of one: {names}."
    text = file.read_bytes()
    file.write_bytes(text.replace(b"namespace 1\n", b"namespace 2\n"))
    assert "has format version 2, this penny-cache reads version 1" in said(here.path)
    file.write_bytes(text)
    segment = here.path / "00000001.segment"
    (here.path / "00000001.index").unlink()
    data = bytearray(segment.read_bytes())
    data[8] = 9
    data[208:224] = xxhash.xxh3_128_digest(bytes(data[:208]))
    segment.write_bytes(data)
    assert "has format version 9" in said(here.path)


def test_another_users_directory_is_not_read(
    run: Run, here: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    done = run("ls", here.path)
    assert (done.code, "belongs to the user" in done.err) == (2, True)


def test_commands_that_write_are_refused_beside_a_writer(run: Run, here: Namespace, tmp_path: Path) -> None:
    archive = tmp_path / "a"
    with open_store(here):
        assert run("export", here.path, archive).code == 0
        for arguments in (
            ("gc", here.path, "--free", "1K"), ("verify", here.path, "--repair"), ("import", archive, here.path),
        ):  # fmt: skip
            done = run(*arguments)
            assert (done.code, "a store has one writer" in done.err) == (2, True)
        for command in ("ls", "stat", "verify"):
            assert run(command, here.path).code == 0


def test_a_namespace_is_not_collected_while_a_command_reads_it(
    run: Run, here: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penny_cache.commands import stat

    used: list[str] = []
    monkeypatch.setattr(stat, "report", lambda store: used.append(namespace.usage(here.path.parent)[0].user))
    monkeypatch.setattr(stat, "asdict", lambda found: {})
    run("stat", here.path, "--json")
    assert used == ["it is being read"]


def test_namespace_gc(run: Run, here: Namespace) -> None:
    root = here.path.parent
    others = [namespace.ensure(root, Identity.of("tiny", {"page": page})).path for page in (16, 32)]
    odd = namespace.ensure(root, Identity.of("tiny", {"page": 8})).path
    (odd / "notes.txt").write_bytes(b"")
    assert run("namespace", "gc", root).code == 2
    newest = max(
        [here.path, *others], key=lambda path: (max(p.stat().st_mtime for p in path.iterdir()), path)
    )
    dry = run("namespace", "gc", root, "--keep", "1", "--dry-run", "--json").json
    assert isinstance(dry, dict)
    assert dry["left_alone"] == [
        {"directory": odd.name, "why": "it holds notes.txt, which penny-cache did not make"}
    ]
    assert (dry["gone"], len(list(root.iterdir()))) == ([], 4)
    assert newest.exists()
    assert run("namespace", "gc", root, "--unused-for", "30d").out.endswith(
        "0 of 4 directories went, 0 B came free.\n"
    )
    done = run("namespace", "gc", root, "--keep", "0", "--json")
    found = done.json
    assert isinstance(found, dict)
    assert (done.code, sorted(found["gone"])) == (0, sorted(p.name for p in (here.path, *others)))
    assert list(root.iterdir()) == [odd]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500G", 500 * 2**30), ("1.5T", 3 * 2**39), ("64M", 64 * 2**20), ("64MiB", 64 * 2**20), ("64MB", 64_000_000),
        ("2kb", 2000), ("2 k", 2048), ("4096", 4096), ("12B", 12), ("0", 0),
    ],
)  # fmt: skip
def test_sizes(text: str, expected: int) -> None:
    assert units.size(text) == expected


@pytest.mark.parametrize("text", ["", "G", "-1G", "1X", "1GG", "1e9", "1,5G", "500 GBB"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not a size; write 64M"):
        units.size(text)


def test_times() -> None:
    assert [units.seconds(t) for t in ("90s", "45m", "12h", "30d", "2w", "1.5h")] == [
        90, 2700, 43200, 2592000, 1209600, 5400,
    ]  # fmt: skip
    for text in ("30", "d", "-1d", "1y"):
        with pytest.raises(typer.BadParameter, match="is not a time"):
            units.seconds(text)


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (2**20 - 1, "1.0 MiB"),
        (3 * 2**39, "1.5 TiB"),
        (5000, "4.9 KiB"),
    ],
)
def test_sizes_for_people(count: int, expected: str) -> None:
    assert units.shown(count) == expected


@pytest.mark.parametrize("command", ["ls", "stat", "verify", "gc", "export", "import", "namespace"])
def test_every_command_has_help_that_fits(run: Run, command: str) -> None:
    done = run(command, "--help", width=80)
    assert done.code == 0
    assert max(map(len, done.out.splitlines())) <= 80
    assert command in run("--help").out


def test_commands_of_other_folders_are_there_if_these_are(run: Run) -> None:
    listed = run("--help").out
    for name in later.MODULES:
        there = (Path(later.__file__).parents[1] / name / "command.py").is_file()
        assert (f"\n  {name} " in listed) is there
        done = run(name, "--help")
        assert done.code == (0 if there else 2)
        assert done.out.startswith(f"Usage: penny-cache {name} ") is there


def test_json_has_no_bar_and_no_colour_in_it(
    run: Run, here: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    for arguments in (("verify", here.path), ("stat", here.path), ("namespace", "show", here.path)):
        done = run(*arguments, "--json")
        json.loads(done.out)
        assert done.err == ""
