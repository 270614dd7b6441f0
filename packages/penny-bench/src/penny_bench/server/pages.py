"""The pages of a server outside the protocol. A server need not have any of them."""

from __future__ import annotations

from typing import Any

import httpx

from penny_bench.client import Server

PATIENCE = 10.0
"""How long a page may take, s. A server that computes a long prefill may be slow to answer."""


def page_url(server: Server, path: str) -> str:
    """Address of a page at the root of the server, beside its `/v1`."""
    return f"{server.url.removesuffix('/v1')}/{path}"


async def json_page(client: httpx.AsyncClient, server: Server, path: str) -> dict[str, Any] | None:
    """The object on a page; None where there is none."""
    try:
        answer = await client.get(page_url(server, path), headers=server.headers(), timeout=PATIENCE)
        page = answer.json() if answer.status_code == 200 else None
    except (httpx.HTTPError, ValueError):  # it need not have such a page
        return None
    return page if isinstance(page, dict) else None
