"""The HTTP client: httpx for single answers and through proxies, own connections for streams."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from penny_bench.client.pool import CONNECT, Pool

if TYPE_CHECKING:
    from penny_bench.client.server import Server


class HttpClient(httpx.AsyncClient):
    """An httpx client that also has connections for streams.

    Attributes:
        pool: those connections; None where a proxy stands between, which only httpx knows to pass.
    """

    pool: Pool | None = None

    async def aclose(self) -> None:
        """See httpx."""
        if self.pool:
            self.pool.close()
        await super().aclose()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """See httpx."""
        if self.pool:
            self.pool.close()
        await super().__aexit__(exc_type, exc_value, traceback)


def http_client(server: Server) -> HttpClient:
    """A client without a limit on connections; a server on this machine is never reached through a proxy."""
    address = urlsplit(server.url)
    local = address.hostname in ("localhost", "127.0.0.1", "::1")
    # Without https the certificates would be read for nothing, for half a second.
    context = httpx.create_ssl_context(verify=address.scheme == "https")
    client = HttpClient(
        timeout=httpx.Timeout(server.timeout, connect=CONNECT, pool=None),
        headers={"Accept-Encoding": "identity"},
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
        verify=context,
        trust_env=not local,
    )
    if local or not _proxied(address.scheme, address.hostname or ""):
        client.pool = Pool(context)
    return client


def _proxied(scheme: str, host: str) -> bool:
    proxies = getproxies()
    return (scheme in proxies or "all" in proxies) and not proxy_bypass(host)
