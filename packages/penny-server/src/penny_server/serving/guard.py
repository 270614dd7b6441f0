"""The process between ``penny serve`` and the server: lets nothing of the server outlive ``penny serve``.

Run as ``python -m penny_server.serving.guard COMMAND ...``. If ``penny serve`` is killed it cannot clean up,
and SGLang's processes watch for the death of their parent only once they have finished importing. The
kernel tells the guard (SIGHUP), and the guard kills every process that descends from it. SIGTERM is passed
on to the server, which may then end in its own time.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from types import FrameType

from penny_server.serving.processes import SIGNAL_BASE, adopt_orphans, dies_with_parent, kill_descendants


def main(command: list[str]) -> int:
    """Runs ``command`` until it ends, kills what it leaves behind, returns its exit code as shells do."""

    def parent_died(number: int, frame: FrameType | None) -> None:
        kill_descendants()
        sys.exit(SIGNAL_BASE + number)

    adopt_orphans()
    signal.signal(signal.SIGHUP, parent_died)
    asked_to_end = False

    def pass_on(number: int, frame: FrameType | None) -> None:
        nonlocal asked_to_end
        asked_to_end = True
        if server is not None:
            server.terminate()

    server: subprocess.Popen[bytes] | None = None
    signal.signal(signal.SIGTERM, pass_on)
    server = subprocess.Popen(command, preexec_fn=dies_with_parent(signal.SIGKILL))
    if asked_to_end:
        server.terminate()
    code = server.wait()
    kill_descendants()
    return code if code >= 0 else SIGNAL_BASE - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
