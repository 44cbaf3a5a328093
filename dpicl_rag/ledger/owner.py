"""The process that holds a reservation, and whether it is still there."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, named so that a reused process number is not mistaken for it.

    Attributes:
        machine: On Linux the boot and the pid namespace, elsewhere the host name.
        pid: Process number within that.
        started: Start time in clock ticks since boot; 0 where the system does not tell.
    """

    machine: str
    pid: int
    started: int

    def alive(self) -> bool | None:
        """Whether the process runs; None where that cannot be known from here.

        A wrong answer cannot overspend: a commit to a settled reservation is refused.
        """
        if self.machine != _machine():
            return None
        if self.pid == os.getpid() and self.started == _start_time(self.pid):
            return True
        if self.started:
            return self.started == _start_time(self.pid)
        if os.name != "posix":
            return None  # os.kill(pid, 0) would end the process on Windows
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except (OSError, OverflowError):
            return None
        return None  # the number is in use, perhaps by another process


def current_owner() -> Owner:
    """The process that calls."""
    pid = os.getpid()
    return Owner(machine=_machine(), pid=pid, started=_start_time(pid))


def _machine() -> str:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        # Containers share the boot but count processes for themselves.
        return f"{boot} {os.readlink(_PROC / 'self/ns/pid')}"
    except OSError:
        return platform.node()


def _start_time(pid: int) -> int:
    """Field 22 of /proc/<pid>/stat, or 0 if there is no such process or it is a zombie."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return 0
    # The second field is the command in parentheses and may hold anything.
    fields = text.rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] in "ZXx":
        return 0
    return int(fields[19])
