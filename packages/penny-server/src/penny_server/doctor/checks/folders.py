"""The folders that a server writes in."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from penny_server.doctor.base import Case, Check, Finding, fail, gib, ok, warn
from penny_server.doctor.facts import Folder
from penny_server.doctor.places import Place, places

INODES = 100_000
NETWORK = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "fuse.sshfs", "glusterfs", "lustre")
LIBRARIES = (".so", ".cubin", ".json", ".hsaco")
SCANNED = 20_000


def _writable(case: Case) -> Iterable[Finding]:
    refused: dict[str, list[Place]] = {}
    for place in places(case):
        folder = case.facts.folder(place.path)
        if folder.refused:
            refused.setdefault(f"cannot be written: {folder.refused}", []).append(place)
        elif place.code and folder.noexec:
            refused.setdefault("is mounted noexec, and libraries built there cannot be loaded", []).append(
                place
            )
    for why, hit in refused.items():
        where = " and ".join(dict.fromkeys(f"{place.path} ({place.purpose})" for place in hit))
        yield fail(
            f"{where} {why}.",
            f"Give another folder with {_and(hit)}, or let this user write and load libraries there.",
        )
    if not refused:
        yield ok(f"All {len(places(case))} folders can be written.")


def _and(hit: Iterable[Place]) -> str:
    return " and ".join(dict.fromkeys(place.setting for place in hit))


def _space(case: Case) -> Iterable[Finding]:
    """Places on one file system share its room."""
    shared: dict[int, list[tuple[Place, Folder]]] = {}
    for place in places(case):
        folder = case.facts.folder(place.path)
        if not folder.refused:
            shared.setdefault(folder.device, []).append((place, folder))
    free = []
    for group in shared.values():
        hit, wanted = [place for place, _ in group], sum(place.wanted for place, _ in group)
        folder = group[0][1]
        purposes = ", ".join(place.purpose for place in hit)
        if folder.free < wanted:
            yield fail(
                f"{folder.nearest} has {gib(folder.free)} free; {purposes} take up to {gib(wanted)}.",
                f"Make room there, or give another folder with {_and(hit)}.",
            )
        elif folder.inodes is not None and folder.inodes < INODES:
            yield warn(
                f"{folder.nearest} ({purposes}) has room for {folder.inodes:,} more files only.",
                f"Remove files there, or give another folder with {_and(hit)}.",
            )
        else:
            free.append(f"{gib(folder.free)} for {purposes}")
    if free:
        yield ok(f"Free: {'; '.join(free)}.")


def _kind(case: Case) -> Iterable[Finding]:
    bad = False
    for place in places(case):
        folder = case.facts.folder(place.path)
        store = place.setting == "store_dir"
        if folder.kind in NETWORK or (store and folder.kind in ("overlay", "tmpfs", "ramfs")):
            bad = True
            lost = "is lost with the container" if folder.kind == "overlay" else "is lost at a restart"
            why = "is slow and locks badly" if folder.kind in NETWORK else lost
            yield warn(
                f"{place.path} ({place.purpose}) is on {folder.kind}, which {why}.",
                f"Give a folder on a local drive with {place.setting}; in a container, mount one.",
            )
    if not bad:
        yield ok("No network or throw-away file system among them.")


def _kernels(case: Case) -> Iterable[Finding]:
    """A machine that stops while a library is written leaves an empty one, and the next start loops over it."""
    empty = [file for place in places(case) if place.code for file in _empty(place.path)]
    if empty:
        shown = ", ".join(map(str, empty[:3])) + (f" and {len(empty) - 3} more" if len(empty) > 3 else "")
        yield fail(
            f"{len(empty)} compiled kernel{'s are' if len(empty) > 1 else ' is'} empty: {shown}.",
            "Remove them; they are built again.",
        )
    else:
        yield ok("No compiled kernel is empty.")


def _empty(folder: Path) -> Iterable[Path]:
    if not (
        folder.is_dir() and any(part in str(folder).lower() for part in ("cache", "triton", "flashinfer"))
    ):
        return
    for number, file in enumerate(folder.rglob("*")):
        if number >= SCANNED:
            return
        if file.suffix in LIBRARIES and file.is_file() and not file.stat().st_size:
            yield file


CHECKS = (
    Check("folders.writable", "every folder can be written, and built libraries loaded", _writable),
    Check("folders.space", "free bytes and files", _space),
    Check("folders.kind", "no network or throw-away file systems", _kind),
    Check("folders.kernels", "no half-written compiled kernels", _kernels, "cuda"),
)
