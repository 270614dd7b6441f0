"""Whether the server could listen, and who is in the way if not."""

from __future__ import annotations

import errno
import socket

from penny_server.errors import ExitCode, PennyError

SEARCHED = 50


def check_port(host: str, port: int) -> None:
    """Raises PennyError (environment) when ``host:port`` cannot be listened on; names who does already."""
    error = _bind_error(host, port)
    if error is None:
        return
    if error.errno == errno.EADDRINUSE:
        free = next(
            (p for p in range(port + 1, min(port + SEARCHED, 65536)) if not _bind_error(host, p)), None
        )
        hint = (
            f"Choose another one, for example: --port {free}" if free else "Choose another one with --port."
        )
        raise PennyError(
            f"Port {port} on {host} is in use{_holder(port)}.",
            ExitCode.ENVIRONMENT,
            hint,
        )
    if error.errno == errno.EACCES:
        raise PennyError(
            f"Listening on port {port} needs privileges that this user does not have.",
            ExitCode.ENVIRONMENT,
            "Choose a port above 1023 with --port.",
        )
    raise PennyError(
        f"This machine cannot listen on {host}:{port}: {error.strerror or error}.",
        ExitCode.ENVIRONMENT,
        "Give an address of this machine with --host, for example 127.0.0.1 or 0.0.0.0.",
    )


def _bind_error(host: str, port: int) -> OSError | None:
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, proto) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            # With SO_REUSEADDR several sockets may bind; only one of them may listen.
            probe.listen(1)
    except OSError as error:
        return error
    return None


def _holder(port: int) -> str:
    import psutil

    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:
        return ""
    for connection in connections:
        address = connection.laddr
        if connection.status == psutil.CONN_LISTEN and address and address.port == port and connection.pid:
            try:
                return f" by {psutil.Process(connection.pid).name()} (process {connection.pid})"
            except psutil.Error:
                return f" by process {connection.pid}"
    return ""
