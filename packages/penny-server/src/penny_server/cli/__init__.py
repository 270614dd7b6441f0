"""The ``penny`` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs ``penny`` and exits: errors as sentences, interruptions without a traceback."""
    try:
        from penny_server.cli.run import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
