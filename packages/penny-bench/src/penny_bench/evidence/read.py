"""From a document back to what was measured, so that an interrupted run can go on."""

from __future__ import annotations

from typing import Any

from penny_bench.client import (
    Arrival,
    CachedTokens,
    Failure,
    Reply,
    Spans,
    Speculation,
    StreamRecord,
    ToolCall,
)
from penny_bench.load import Check, EarlierPart, RunRequest
from penny_bench.workload import EarlierPhases, PhaseResult


def earlier_part(document: dict[str, Any]) -> EarlierPart:
    """What a partial document of a load has; requests that the interruption ended are left out."""
    requests = (read_request(part) for part in document["requests"])
    return EarlierPart(
        tuple(r for r in requests if not _interrupted(r)), document["seconds"], _parts(document)
    )


def earlier_phases(document: dict[str, Any]) -> EarlierPhases:
    """The finished phases of a partial document of a workload."""
    requests = [read_request(part) for part in (*document["warmups"], *document["requests"])]
    phases = tuple(
        PhaseResult(
            part["name"],
            part["label"],
            part["warmup"],
            part["streams"],
            part["cache"]["verdict"] == "intended",
            part["started"],
            part["ended"],
            tuple(request for request in requests if request.phase == part["name"]),
        )
        for part in document["phases"]
        if part["ended"] is not None
    )
    return EarlierPhases(phases, document["seconds"], _parts(document))


def read_request(part: dict[str, Any]) -> RunRequest:
    """The request of a part of a document."""
    return RunRequest(
        number=part["number"],
        scheduled=part["scheduled"],
        prompt_tokens=part["asked"]["prompt_tokens"],
        tokens=part["asked"]["tokens"],
        record=read_record(part),
        phase=part["phase"],
        case=part["case"],
        turn=part["turn"],
        checks=tuple(Check(**check) for check in part["checks"]),
    )


def read_record(part: dict[str, Any]) -> StreamRecord:
    """The record of a part of a document."""
    told = part["speculation"]
    text = part["text"]
    return StreamRecord(
        sent=part["sent"],
        ended=part["ended"],
        arrivals=tuple(Arrival(t, tokens) for t, tokens in part["arrivals"]),
        first_byte=part["first_byte"],
        first_reasoning=part["first_reasoning"],
        first_answer=part["first_content"],
        **part["usage"],
        finish_reason=part["finish_reason"],
        failure=Failure(**part["failure"]) if part["failure"] else None,
        reply=text
        and Reply(text["content"], text["reasoning"], tuple(ToolCall(**call) for call in text["tool_calls"])),
        cached=CachedTokens(**part["cached"]) if part["cached"] else None,
        speculation=told
        and Speculation(told["verify"], told["accepted"], told["proposed"], tuple(told["histogram"])),
        spans=Spans(**part["spans"]) if part["spans"] else None,
    )


def _interrupted(request: RunRequest) -> bool:
    return request.record.failure is not None and request.record.failure.kind == "interrupted"


def _parts(document: dict[str, Any]) -> int:
    return len(document["earlier"]) + 1
