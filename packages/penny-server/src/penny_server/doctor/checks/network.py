"""The address to listen on, and proxies in the way."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from penny_server.doctor.base import Case, Check, Finding, fail, ok
from penny_server.errors import PennyError
from penny_server.serving.port import check_port


def _port(case: Case) -> Iterable[Finding]:
    launch = case.launch
    if launch is None:
        return
    try:
        check_port(launch.host, launch.port)
    except PennyError as error:
        yield fail(error.message, error.hint)
    else:
        yield ok(f"{launch.host}:{launch.port} is free.")


def _proxy(case: Case) -> Iterable[Finding]:
    """SGLang asks its own address at the end of the start, and its HTTP client goes through proxies."""
    from requests.utils import should_bypass_proxies

    environ = {name.lower(): value for name, value in case.environ.items()}
    proxy = environ.get("http_proxy") or environ.get("all_proxy")
    url = case.launch.url if case.launch else "http://127.0.0.1:8001"
    host = urlsplit(url).hostname
    if not proxy:
        yield ok("No proxy for HTTP.")
    elif should_bypass_proxies(url, environ.get("no_proxy", "")):
        yield ok(f"A proxy for HTTP is set, and {host} goes past it.")
    else:
        yield fail(
            f"A proxy for HTTP is set and {host} would go through it, so that the server never gets its own warm-up.",
            f"Add it to the exceptions: export no_proxy={host},localhost",
        )


CHECKS = (
    Check("network.port", "the port is free and may be listened on", _port, "launch"),
    Check("network.proxy", "the server reaches itself past any proxy", _proxy),
)
