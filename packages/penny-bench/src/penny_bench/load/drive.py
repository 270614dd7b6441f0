"""Sends what is due when it is due. It knows no network and no clock but those it is given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Coroutine, Iterable, Iterator
from itertools import count, islice, takewhile
from typing import Any, TypeVar

from penny_bench.load.base import Closed, OpenLoad, Slot

Job = TypeVar("Job")

BATCH = 16
"""Late requests that may start without a look at the open streams."""


def due(load: OpenLoad, seed: int, requests: int | None, duration: float | None) -> Iterator[Slot]:
    """The slots of a run: the first `requests` that are due before `duration` seconds; None for no limit."""
    slots: Iterator[Slot] = islice(load.slots(seed), requests)
    return slots if duration is None else takewhile(lambda slot: slot.t < duration, slots)


async def drive_open(
    slots: Iterable[Slot],
    prepare: Callable[[int, Slot], Job],
    send: Callable[[Job], Coroutine[Any, Any, None]],
    clock: Callable[[], float],
    done: Container[int] = (),
) -> None:
    """Start each request at its time and return when all have ended.

    Args:
        slots: in the order of their times.
        prepare: makes job `number`, from 0; called ahead of its time, so that its cost delays nothing.
        send: one request from start to end.
        clock: seconds since the start of the run.
        done: numbers of requests that are left out, since an earlier part of the run had them.
    """
    async with asyncio.TaskGroup() as group:
        for number, slot in enumerate(slots):
            if number in done:
                continue
            job = prepare(number, slot)
            wait = slot.t - clock()
            # Those that are late start together, but open streams must be read now and then.
            if wait > 0 or number % BATCH == 0:
                await asyncio.sleep(max(0.0, wait))
            group.create_task(send(job))


async def drive_closed(
    load: Closed,
    prepare: Callable[[int, Slot], Job],
    send: Callable[[Job], Coroutine[Any, Any, None]],
    clock: Callable[[], float],
    requests: int | None,
    duration: float | None,
    done: Container[int] = (),
) -> None:
    """Keep `load.concurrency` requests open until `requests` were sent or `duration` seconds have passed.

    Users begin as `load.ramp_up` says. Requests open at the end are followed to theirs. A slot's time is when its
    user became free. `done` is as for `drive_open`.
    """
    every = count() if requests is None else iter(range(requests))
    numbers = (number for number in every if number not in done)

    async def user(begins: float) -> None:
        await asyncio.sleep(max(0.0, begins - clock()))
        for number in numbers:  # shared by all users
            now = clock()
            if duration is not None and now >= duration:
                return
            await send(prepare(number, Slot(now)))

    users, start = load.concurrency if requests is None else min(load.concurrency, requests), clock()
    async with asyncio.TaskGroup() as group:
        for number in range(users):
            group.create_task(user(start + load.ramp_up * number / users))
