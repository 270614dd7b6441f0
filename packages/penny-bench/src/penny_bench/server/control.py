"""What a server can be asked to do beside answering."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import httpx

from penny_bench.client import Server
from penny_bench.server.metrics import MetricsReader
from penny_bench.server.pages import page_url

FLUSH_TIMEOUT = 60.0
"""How long a server may take to become idle and empty its cache, s."""
QUIET = 1.0
"""A transfer is over when its count stood still for so long, s."""
STORED = "sglang:backuped_tokens_total"
"""Tokens written to storage since the server started."""

_FLUSHES = (f"flush_cache?timeout={FLUSH_TIMEOUT:.0f}", "reset_prefix_cache")


@dataclass(frozen=True)
class Flush:
    """What became of a flush.

    Attributes:
        done: whether the cache is empty.
        detail: how, or why not, as a sentence.
    """

    done: bool
    detail: str


async def flush(client: httpx.AsyncClient, server: Server) -> Flush:
    """Empty the prefix cache in device and host memory; what is in storage stays.

    SGLang's `POST /flush_cache` resets its radix tree with the host pool behind it and takes the storage up again
    (0.5.23, `UnifiedRadixCache.reset`); writes to storage that are still going on are dropped, so wait for them with
    `wait_until_stored`. It refuses while requests run. vLLM has `POST /reset_prefix_cache`, if it was started with
    VLLM_SERVER_DEV_MODE=1.
    """
    detail = ""
    for path in _FLUSHES:
        name = path.partition("?")[0]
        try:
            answer = await client.post(
                page_url(server, path), headers=server.headers(), timeout=FLUSH_TIMEOUT + 10
            )
        except httpx.HTTPError as error:
            return Flush(False, f"POST /{name} failed ({type(error).__name__}).")
        if answer.status_code == 200:
            return Flush(True, f"POST /{name} emptied the cache of the device and the host.")
        if answer.status_code in (401, 403):
            return Flush(False, f"POST /{name} needs the server's admin key; give it with --api-key.")
        if answer.status_code not in (404, 405):
            reason = answer.text.strip()[:200] or "no reason given"
            return Flush(False, f"POST /{name} answered with HTTP {answer.status_code}: {reason}")
        detail = "The server has no way to empty its cache (POST /flush_cache, /reset_prefix_cache)."
    return Flush(False, detail)


async def stored_tokens(reader: MetricsReader) -> float | None:
    """Tokens that the server has written to storage so far; None if it does not tell."""
    page = await reader.read()
    return None if page is None else page.value(STORED)


async def wait_until_stored(reader: MetricsReader, earlier: float, longest: float) -> float | None:
    """Wait until what was computed is in storage: more than `earlier` tokens, and no more coming.

    Args:
        reader: of the server's counters.
        earlier: `stored_tokens` before.
        longest: give up after so many seconds; a server that does not tell is given all of them.

    Returns:
        Tokens written since; None if the server does not tell.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + longest
    last, since = await stored_tokens(reader), loop.time()
    while (now := loop.time()) < end:
        if last is not None and last > earlier and now - since >= QUIET:
            break
        await asyncio.sleep(min(0.1, max(0.0, end - now)))
        count = await stored_tokens(reader)
        if count != last:
            last, since = count, loop.time()
    return None if last is None else last - earlier
