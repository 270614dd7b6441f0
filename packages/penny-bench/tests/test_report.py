"""Rows, table and document of a result made by hand."""

import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from penny_bench.client import Arrival, Failure, Server, StreamRecord
from penny_bench.errors import BenchError
from penny_bench.measure import DecodePlan, DecodeResult, Group
from penny_bench.report import SCHEMA, document, print_result, rows, write_json


def good(first: float, last: float, tokens: int, cached: int = 0) -> StreamRecord:
    return StreamRecord(
        sent=0.0,
        ended=last,
        arrivals=(Arrival(first, None), Arrival(last, tokens)),
        prompt_tokens=100,
        cached_tokens=cached,
        output_tokens=tokens,
    )


BAD = StreamRecord(sent=0.0, ended=1.0, failure=Failure("http", "HTTP 503 [overloaded]."))


def result(*groups: Group, extensions: bool = True) -> DecodeResult:
    server = Server(url="http://x/v1", model="m[1]", api_key="secret", extensions=extensions)
    concurrency = tuple(dict.fromkeys(g.concurrency for g in groups))
    return DecodeResult(server, DecodePlan(concurrency=concurrency, tokens=101), (good(1, 2, 2),), groups)


def group(*records: StreamRecord, warmup: bool = False) -> Group:
    return Group(len(records), warmup, records, 4.0, 0.1)


def printed(value: DecodeResult, width: int = 300) -> str:
    out = io.StringIO()
    print_result(value, Console(file=out, width=width))
    return out.getvalue()


RESULT = result(
    group(good(1, 2, 101), warmup=True),
    group(good(1, 3, 101)),
    group(good(2, 6, 101)),
    group(good(1, 3, 101), good(1, 3, 101)),
    group(good(1, 3, 101), BAD),
)


def test_rows_leave_out_warmups_and_failures() -> None:
    one, two = rows(RESULT)
    assert one.aggregate is not None
    assert (one.aggregate.n, one.aggregate.minimum, one.aggregate.maximum) == (2, 25.0, 50.0)
    assert one.ttft is not None
    assert (one.ttft.minimum, one.ttft.maximum) == (1.0, 2.0)
    assert one.failures == {}
    assert two.aggregate is not None
    assert (two.aggregate.n, two.aggregate.median) == (1, 100.0)
    assert two.stream is not None
    assert two.stream.n == 3
    assert two.failures == {"HTTP 503 [overloaded].": 1}


def test_table_shows_numbers_and_failures() -> None:
    text = printed(RESULT)
    assert "Decode, m[1]" in text
    lines = [line.split() for line in text.splitlines()]
    # 37.5 +- t(0.975, 1) * 17.678 / sqrt(2) = 37.5 +- 158.8
    assert ["1", "37.5", "25.0-50.0", "-121..196", "37.5", "25.2", "1.500", "100", "0"] in lines
    assert ["2", "100.0", "100-100", "-", "50.0", "67.3", "1.000", "100", "1"] in lines
    assert "2 streams: 1 failed. HTTP 503 [overloaded]." in text


def test_table_fits_into_80_columns() -> None:
    text = printed(RESULT, width=80)
    assert "-121..196" in text
    fast = group(*[good(0.001, 1.001, 1234)] * 64)  # 64 x 1233 tokens in 1 s
    text += printed(result(fast, fast), width=80)
    assert "78912  78912-78912  78912..78912" in text
    assert "…" not in text


def test_table_says_what_weakens_the_numbers() -> None:
    assert "a stream ended after 50 of 101 tokens" in printed(result(group(good(1, 3, 50))))
    assert "90 prompt tokens came from the server's cache" in printed(
        result(group(good(1, 3, 101, cached=90)))
    )
    assert "no time in which all streams were decoding" in printed(
        result(group(good(1, 2, 101), good(3, 4, 101)))
    )
    assert "refused ignore_eos" in printed(result(group(good(1, 3, 101)), extensions=False))
    for sentence in ("ended after", "cache", "no rate", "refused"):
        assert sentence not in printed(result(group(good(1, 3, 101))))


def test_document_round_trips_and_keeps_no_secret(tmp_path: Path) -> None:
    value = document(RESULT, "penny-bench decode", datetime(2026, 1, 2, tzinfo=UTC), "0.1.0")
    path = tmp_path / "out.json"
    write_json(path, value)
    read = json.loads(path.read_text())
    assert read["schema"] == SCHEMA
    assert read["started"] == "2026-01-02T00:00:00+00:00"
    assert [g["warmup"] for g in read["groups"]] == [True, False, False, False, False]
    assert read["groups"][3]["rates"]["aggregate"] == 100.0
    assert read["groups"][1]["records"][0]["arrivals"] == [{"t": 1, "tokens": None}, {"t": 3, "tokens": 101}]
    assert read["groups"][4]["records"][1]["failure"]["kind"] == "http"
    assert "secret" not in path.read_text()
    assert [p.name for p in tmp_path.iterdir()] == ["out.json"]


def test_a_document_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text("old")
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "out.json", {"x": float("nan")})
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("out.json", "old")]
    with pytest.raises(BenchError, match="Could not write"):
        write_json(tmp_path / "none" / "out.json", {})
