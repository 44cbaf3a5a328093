"""Confinement of the process that reads one file: public limits, no network, no processes.

Two walls. Python's audit hook refuses sockets and processes wherever Python runs, but not to native
code. On Linux the kernel refuses the system calls themselves (seccomp(2), filter mode), to whatever
runs there, without privileges and for good. The numbers are those of the kernel's tables
``arch/x86/entry/syscalls/syscall_64.tbl`` and ``include/uapi/asm-generic/unistd.h``.
"""

from __future__ import annotations

import ctypes
import platform
import signal
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

MAX_UNPACKED_BYTES = 512 * 2**20
"""An office file that says of itself that it unpacks to more is not unpacked."""

_OPEN_FILES = 64


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Limits on one file.

    Attributes:
        cpu_seconds: Of processor time.
        seconds: By the clock, for a reader that waits: so much that a busy machine changes nothing.
        memory: Bytes of address space. macOS does not hold a process to it.
        text: Bytes of what comes back.
    """

    cpu_seconds: int = 120
    seconds: float = 1_200
    memory: int = 2 * 2**30
    text: int = 16 * 2**20

    def apply(self, *, threads: bool) -> None:
        """Bind this process to them, for good.

        Args:
            threads: Whether it may have threads. One that may not can start no process either; the
                superuser is not bound by that.
        """
        import resource  # Unix alone has it

        most = {
            resource.RLIMIT_AS: self.memory,
            resource.RLIMIT_FSIZE: 0,  # it writes nothing but to its pipe
            resource.RLIMIT_NOFILE: _OPEN_FILES,
            resource.RLIMIT_CORE: 0,  # a core would hold the file
        }
        if not threads:
            most[resource.RLIMIT_NPROC] = 0
        for what, value in most.items():
            _limit(what, value, value)
        _limit(resource.RLIMIT_CPU, self.cpu_seconds, self.cpu_seconds + 1)


def _limit(what: int, soft: int, hard: int) -> None:
    import resource

    there = resource.getrlimit(what)[1]
    if there != resource.RLIM_INFINITY:
        soft, hard = min(soft, there), min(hard, there)
    with suppress(ValueError, OSError):  # a system that does not know a limit
        resource.setrlimit(what, (soft, hard))


class _Machine(NamedTuple):
    """A kind of machine, as its kernel calls it, and numbers of its system calls."""

    audit: int
    # socket, socketpair, io_uring_setup; ptrace, process_vm_writev, kill, pidfd_send_signal
    reaching: tuple[int, ...]
    # clone, fork, vfork, clone3, execve, execveat
    running: tuple[int, ...]


_MACHINES = {
    "x86_64": _Machine(0xC000003E, (41, 53, 425, 101, 311, 62, 424), (56, 57, 58, 435, 59, 322)),
    "aarch64": _Machine(0xC00000B7, (198, 199, 425, 117, 271, 129, 424), (220, 435, 221, 281)),
}
_FOREIGN = 0x40000000  # calls from here on are those of x32
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001  # the call fails with EPERM
_DEATH_SIGNAL, _NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 1, 38, 22, 2

_REFUSED = (
    "socket.", "subprocess.", "os.exec", "os.fork", "os.kill", "os.posix_spawn", "os.spawn",
    "os.system", "ctypes.", "urllib.", "ftplib.", "http.", "smtplib.",
)  # fmt: skip


class RefusedError(RuntimeError):
    """The reader of a file asked for what it may not have."""


def confine(*, runs_program: bool) -> bool:
    """Confine this process, for good.

    Args:
        runs_program: It becomes another program, which may have threads.

    Returns:
        Whether the kernel holds it as well.
    """
    held = False
    if sys.platform == "linux":
        with suppress(OSError):  # a machine that is short of memory ends this process first
            Path("/proc/self/oom_score_adj").write_text("1000")
        held = _confine_on_linux(runs_program)
    sys.addaudithook(lambda event, _: _refuse(event, runs_program))
    return held


def _refuse(event: str, runs_program: bool) -> None:
    if event.startswith(_REFUSED) and not (runs_program and event == "os.exec"):
        raise RefusedError


def _confine_on_linux(runs_program: bool) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)  # it does not outlive its parent
    machine = _MACHINES.get(platform.machine())
    if machine is None or libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        return False
    calls = machine.reaching if runs_program else machine.reaching + machine.running
    raw = _filter(machine.audit, calls)
    kept = ctypes.create_string_buffer(raw)
    program = struct.pack("@HP", len(raw) // 8, ctypes.addressof(kept))
    return bool(libc.prctl(_SECCOMP, _FILTER, program, 0, 0) == 0)


def _filter(audit: int, calls: tuple[int, ...]) -> bytes:
    """A program for the kernel that refuses calls, and all calls of another machine."""
    code = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, audit), (_RETURN, 0, 0, _REFUSE), (_LOAD, 0, 0, 0)]
    code += [(_AT_LEAST, 0, 1, _FOREIGN), (_RETURN, 0, 0, _REFUSE)]
    for call in calls:
        code += [(_EQUAL, 0, 1, call), (_RETURN, 0, 0, _REFUSE)]
    code += [(_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("=HBBI", *one) for one in code)
