"""Runs a command under a limit of the kernel: ``files`` (at most 512 open) or ``no-io-uring``."""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO_EPERM = 0x7FFF0000, 0x00050001
IO_URING_SETUP = 425


def no_io_uring() -> None:
    """The filter of a container: io_uring_setup answers EPERM, everything else is let through."""
    program = b"".join(
        struct.pack("HBBI", *instruction)
        for instruction in (
            (LOAD_WORD, 0, 0, 0),
            (JUMP_IF_EQUAL, 0, 1, IO_URING_SETUP),
            (RETURN, 0, 0, ERRNO_EPERM),
            (RETURN, 0, 0, ALLOW),
        )
    )
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", 4, ctypes.addressof(buffer))
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or library.prctl(
        PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.create_string_buffer(header, len(header)), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "the kernel takes no filter")


def main() -> None:
    if sys.argv[1] == "files":
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
    else:
        no_io_uring()
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
