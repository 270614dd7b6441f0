"""Stamps of the kernel: what they say, and that a clock that is set does no harm."""

import asyncio
import socket
import struct
import sys
import time
from collections.abc import Iterator

import pytest

from penny_bench.client import Server, http_client, stream
from penny_bench.client.stamps import SO_TIMESTAMPNS, SPACE, Stamps
from penny_bench.mock import MockServer, running, token_script

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux stamps TCP data")


def stamp(seconds: float) -> list[tuple[int, int, bytes]]:
    """The control message of data that came at that time of the wall clock."""
    whole = int(seconds)
    nanoseconds = round((seconds - whole) * 1e9)
    return [(socket.SOL_SOCKET, SO_TIMESTAMPNS, struct.pack("=qq", whole, nanoseconds))]


class Clocks:
    """Two clocks that a test sets."""

    def __init__(self) -> None:
        self.wall, self.monotonic = 1_800_000_000.0, 500.0
        self.stamps = Stamps(lambda: self.wall, lambda: self.monotonic)

    def age(self, ancillary: list[tuple[int, int, bytes]]) -> float:
        return self.monotonic - self.stamps.came(ancillary)

    def tick(self, seconds: float) -> None:
        self.wall += seconds
        self.monotonic += seconds


def test_age_is_what_passed_since_the_kernel_had_the_data() -> None:
    clocks = Clocks()
    came = clocks.wall
    clocks.tick(0.25)
    assert clocks.age(stamp(came)) == pytest.approx(0.25, abs=1e-6)
    assert clocks.stamps.used == 1


@pytest.mark.parametrize(
    "ancillary", [[], [(socket.SOL_SOCKET, 29, b"x" * 16)], [(1, SO_TIMESTAMPNS, b"short")]]
)
def test_without_a_stamp_the_data_is_new(ancillary: list[tuple[int, int, bytes]]) -> None:
    clocks = Clocks()
    assert (clocks.age(ancillary), clocks.stamps.used) == (0.0, 0)


def test_a_process_that_is_put_aside_between_its_two_clocks_looks_again() -> None:
    looks = iter([500.0, 500.0, 500.3, 500.4, 500.4])
    walls = iter([1_800_000_000.0, 1_800_000_000.2, 1_800_000_000.4])
    stamps = Stamps(walls.__next__, looks.__next__)
    # The first pair is 0.3 s apart and would make it 0.1 s too late.
    assert stamps.came(stamp(1_800_000_000.1)) == pytest.approx(500.1, abs=1e-6)


def test_data_is_never_from_the_future() -> None:
    clocks = Clocks()
    assert clocks.age(stamp(clocks.wall + 0.0005)) == 0.0


@pytest.mark.parametrize("step", [3600.0, -3600.0, 0.01, -0.01])
def test_a_step_of_the_wall_clock_is_seen_and_its_stamps_are_left_out(step: float) -> None:
    clocks = Clocks()
    came = clocks.wall
    clocks.tick(0.1)
    clocks.wall += step  # between the arrival and the read
    assert clocks.age(stamp(came)) == 0.0
    clocks.tick(0.9)  # data from before the step may still have waited
    assert clocks.age(stamp(came)) == 0.0
    clocks.tick(0.2)
    came = clocks.wall
    clocks.tick(0.05)
    assert clocks.age(stamp(came)) == pytest.approx(0.05, abs=1e-6)


def test_a_clock_that_is_slewed_is_not_taken_for_one_that_was_set() -> None:
    clocks = Clocks()
    for _ in range(100):
        clocks.tick(10.0)
        clocks.wall += 0.005  # 500 parts in a million, the most that adjtime does
        assert clocks.age(stamp(clocks.wall - 0.02)) == pytest.approx(0.02, abs=1e-6)


@LINUX
def test_the_kernel_stamps_data_when_it_comes_and_not_when_it_is_read() -> None:
    stamps = Stamps()
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as ours,
        listening.accept()[0] as theirs,
    ):
        assert stamps.switch_on(ours)
        for _ in range(100):  # the kernel starts to stamp a moment after it was asked to
            theirs.sendall(b"-")
            if ours.recvmsg(10, SPACE)[1]:
                break
            time.sleep(0.01)
        theirs.sendall(b"x")
        time.sleep(0.2)
        data, ancillary, _, _ = ours.recvmsg(10, SPACE)
    assert data == b"x"
    assert 0.19 < time.perf_counter() - stamps.came(ancillary) < 10


@LINUX
def test_arrivals_do_not_wait_for_a_busy_event_loop() -> None:
    """The loop sleeps through the moment at which the token comes, and still knows it."""

    async def run() -> tuple[float, float]:
        with running(lambda number, body: token_script(tokens=2, first=0.3, interval=0.01)) as mock:
            server = await Server.connect(mock.url)
            async with http_client(server) as client:
                task = asyncio.create_task(stream(client, server, server.body("x", 2), time.perf_counter))
                await asyncio.sleep(0.1)
                time.sleep(1.5)  # the loop is meant to stand still
                blocked_until = time.perf_counter()
                record = await task
        assert record.failure is None
        assert record.ttft is not None
        return record.ttft, blocked_until - record.arrivals[0].t

    ttft, before_the_loop_looked = asyncio.run(run())
    assert ttft >= 0.3
    assert before_the_loop_looked > 0.1


def test_a_wall_clock_set_back_in_mid_stream_changes_no_time() -> None:
    """Every look at the wall clock is an hour earlier, or two later, than the last one."""

    def walls() -> Iterator[float]:
        now = time.time()
        for number in range(10_000):
            yield now + (-3600.0 if number % 2 else 7200.0) * number

    async def run() -> None:
        async with MockServer(
            lambda number, body: token_script(tokens=20, first=0.05, interval=0.01)
        ).start() as mock:
            server = await Server.connect(mock.url)
            async with http_client(server) as client:
                assert client.pool
                client.pool.stamps = Stamps(walls().__next__)
                began = time.perf_counter()
                record = await stream(client, server, server.body("x", 20), time.perf_counter)
        times = [arrival.t for arrival in record.arrivals]
        assert record.failure is None
        assert times == sorted(times)
        assert began <= record.sent <= times[0]
        # Each token is seen after it was written, and before the test ended.
        for seen, written in zip(times, mock.sent[0][1:], strict=False):
            assert written <= seen <= time.perf_counter()

    asyncio.run(run())
