"""Limits of the process that reads one file. Public."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

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
