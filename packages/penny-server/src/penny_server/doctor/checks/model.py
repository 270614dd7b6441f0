"""The checkpoint, its draft, its token map and its chat template."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from penny_server.doctor.base import Case, Check, Finding, fail, gib, ok, warn
from penny_server.doctor.digests import (
    MAP_TOKENIZER,
    PINS,
    chosen_file,
    draft_folder,
    folder_digests,
    sha256,
    unpinned,
)
from penny_server.errors import ExitCode, PennyError
from penny_server.serving.checks import check_draft_weights, check_weights
from penny_server.serving.fit import check_model_fit
from penny_server.serving.gpu import Gpu

AGAIN = "Fetch the files again."
SHOWN = 12
"""Digits of a digest that are shown."""


def _checkpoint(case: Case) -> Iterable[Finding]:
    launch = case.launch
    if launch is None:
        return
    if not case.model_given:
        yield warn(
            "No checkpoint was named, so none was looked at.",
            f"Name it: penny doctor {launch.profile} --model FOLDER",
        )
        return
    try:
        report = check_weights(launch)
    except PennyError as error:
        yield fail(
            error.message, error.hint or "Do as the line says; most often the files have to be fetched again."
        )
        return
    yield ok(
        f"{report.architecture}: {report.tensors} tensors in {report.shards} file{'s' * (report.shards > 1)}, "
        f"{gib(report.bytes)}."
    )
    for warning in report.warnings:
        yield warn(warning, "Take the checkpoint that its config.json belongs to.")


def _fit(case: Case) -> Iterable[Finding]:
    launch = case.launch
    if launch is None or not case.model_given or not all(file.is_file() for file in _files(case)):
        return  # model.files names the missing one
    size = sum(file.stat().st_size for file in launch.checkpoint.glob("*.safetensors"))
    gpus = [Gpu(gpu.name, gpu.capability, gpu.total) for gpu in case.facts.gpus]
    try:
        check_model_fit(launch, size, gpus)
    except PennyError as error:
        if error.exit_code == ExitCode.CHECKPOINT and not (launch.checkpoint / "config.json").is_file():
            return  # model.checkpoint has said so
        yield fail(error.message, error.hint or "Correct that setting.")
    else:
        yield ok("The settings fit the checkpoint.")


def _downloads(case: Case) -> Iterable[Finding]:
    if case.launch is None or not case.model_given:
        return
    folders = [case.launch.checkpoint, *filter(None, [draft_folder(case)])]
    unfinished = [
        file for folder in folders for file in folder.glob(".cache/huggingface/download/**/*.incomplete")
    ]
    if unfinished:
        yield warn(
            f"{len(unfinished)} download{'s' * (len(unfinished) > 1)} into {unfinished[0].parents[3]} did not end.",
            "Run the download again; it goes on where it stopped. Remove *.incomplete files that are not wanted.",
        )
    else:
        yield ok("No download is half done.")


def _draft(case: Case) -> Iterable[Finding]:
    folder = draft_folder(case)
    if folder is None:
        yield ok("The profile has no draft model of its own.")
        return
    if str(folder) == "DRAFT":
        yield warn("No draft model was named, so none was looked at.", "Name it with --draft FOLDER.")
        return
    shards = sorted(folder.glob("*.safetensors"))
    if not (folder / "config.json").is_file() or not shards:
        missing = (
            "config.json" if shards else "weights" if (folder / "config.json").is_file() else "checkpoint"
        )
        yield fail(
            f"The draft's folder {folder} has no {missing}.", "Fetch it, or name another with --draft FOLDER."
        )
        return
    if case.launch is None:
        return
    try:
        report = check_draft_weights(case.launch)
    except PennyError as error:
        yield fail(error.message, error.hint or AGAIN)
        return
    if report is not None:
        yield ok(f"Draft {report.architecture}: {report.tensors} tensors, {gib(report.bytes)}.")


def _files(case: Case) -> list[Path]:
    named = (
        chosen_file(case, "chat_template", "chat-template"),
        chosen_file(case, "speculative_token_map", ""),
    )
    return [file for file in named if file is not None]


def _named(case: Case) -> Iterable[Finding]:
    files = _files(case)
    missing = [file for file in files if not file.is_file()]
    for file in missing:
        yield fail(f"{file} is not there, and a setting names it.", "Fetch it, or correct the path.")
    there = [file for file in files if file.is_file()]
    wrong = list(unpinned(there))
    for file, found, expected in wrong:
        yield fail(
            f"{file} has the sha256 {found[:SHOWN]}, and the one of that name has {expected[:SHOWN]}.",
            "Fetch it again, or give a changed file a name of its own.",
        )
    yield from _map(case, there)
    if not missing and not wrong:
        yield ok(
            ", ".join(f"{f.name} {sha256(f)[:SHOWN]}" for f in files) or "The checkpoint's own chat template."
        )


def _map(case: Case, files: list[Path]) -> Iterable[Finding]:
    tokenizer = case.launch.checkpoint / "tokenizer.json" if case.launch and case.model_given else None
    pinned = any(file.name in PINS and file.suffix == ".pt" for file in files)
    if (
        pinned
        and tokenizer is not None
        and tokenizer.is_file()
        and (found := sha256(tokenizer)) != MAP_TOKENIZER
    ):
        yield fail(
            f"The token map is for the tokenizer {MAP_TOKENIZER[:SHOWN]}, and the checkpoint's is {found[:SHOWN]}.",
            "Take the map that was made for this checkpoint, or start without one.",
        )


def _digests(case: Case) -> Iterable[Finding]:
    launch = case.launch
    if launch is None or not case.model_given or not launch.checkpoint.is_dir():
        return
    for label, folder in (("checkpoint", launch.checkpoint), ("draft", draft_folder(case))):
        if folder is not None and folder.is_dir():
            found = folder_digests(folder)
            yield ok(f"sha256 of the {label}: {', '.join(f'{n} {d[:SHOWN]}' for n, d in found.items())}.")


CHECKS = (
    Check(
        "model.checkpoint",
        "the checkpoint is whole: every tensor, its shape, dtype and length",
        _checkpoint,
        "launch",
    ),
    Check("model.settings", "the settings fit the checkpoint's config and template", _fit, "launch"),
    Check("model.downloads", "no half-done downloads", _downloads, "launch"),
    Check("model.draft", "the draft model is whole", _draft, "launch"),
    Check(
        "model.files", "chat template and token map are there and are the ones of that name", _named, "launch"
    ),
    Check("model.digests", "what the checkpoint and the draft are", _digests, "launch"),
)
