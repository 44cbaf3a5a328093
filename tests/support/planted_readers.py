"""Readers that do what a hostile file would make one do, in the child process."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from dpicl_rag.conversion.child import FileReader

_ANSWER = 3  # where a reader's answer goes
_seen: list[bytes] = []


def _echo(content: bytes) -> bytes:
    return content


def _remember(content: bytes) -> bytes:
    """What it has seen so far: of a process of its own, this file alone."""
    _seen.append(content)
    os.environ["SEEN"] = os.environ.get("SEEN", "") + content.decode()
    return b",".join(_seen) + b" " + os.environ["SEEN"].encode()


def _surroundings(content: bytes) -> bytes:
    """Its environment, its folder, and the order of a set."""
    names = sorted(set(os.environ) - {"PYTHONHASHSEED", "PYTHONUTF8", "LC_CTYPE", "PWD"})
    letters = "".join({"a", "b", "c", "d", "e", "f", "g"})
    return f"{names} {os.listdir()} {letters} {Path.cwd().parent.name[:10]}".encode()


def _sleep(content: bytes) -> bytes:
    time.sleep(1_000)
    return content


def _deaf(content: bytes) -> bytes:
    for number in (signal.SIGTERM, signal.SIGXCPU, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    while True:
        pass


def _silent(content: bytes) -> bytes:
    os.write(_ANSWER, b"half")
    os.close(_ANSWER)
    time.sleep(1_000)
    return content


def _spin(content: bytes) -> bytes:
    while True:
        pass


def _exit(content: bytes) -> bytes:
    os._exit(3)


def _exit_well(content: bytes) -> bytes:
    sys.exit(0)


def _crash(content: bytes) -> bytes:
    os.abort()


def _kill_parent(content: bytes) -> bytes:
    os.kill(os.getppid(), signal.SIGKILL)
    return b"killed"


def _eat(content: bytes) -> bytes:
    held = []
    while True:
        held.append(bytes(2**24))  # of zeros: no page is touched, which would take its time


def _map(content: bytes) -> bytes:
    return bytes(len(mmap.mmap(-1, 2**40)))


def _fill(content: bytes) -> bytes:
    with open("filled", "wb") as file:
        while True:
            file.write(bytes(2**20))


def _flood(content: bytes) -> bytes:
    while True:
        os.write(_ANSWER, bytes(2**16))


def _open_many(content: bytes) -> bytes:
    return bytes(len([os.open(".", os.O_RDONLY) for _ in range(10_000)]))


def _connect(content: bytes) -> bytes:
    socket.create_connection(("127.0.0.1", int(content))).close()
    return b"connected"


def _resolve(content: bytes) -> bytes:
    return socket.gethostbyname("localhost").encode()


def _run(content: bytes) -> bytes:
    return subprocess.check_output(["/bin/sh", "-c", "echo ran"])


def _thread(content: bytes) -> bytes:
    thread = threading.Thread(target=print)
    thread.start()
    thread.join()
    return b"ran"


def _raise(content: bytes) -> bytes:
    raise ValueError(content.decode())


def _print(content: bytes) -> bytes:
    print(content.decode(), flush=True)  # noqa: T201
    print(content.decode(), file=sys.stderr)  # noqa: T201
    return b"quiet"


_libc = ctypes.CDLL(None)
_call, _fork = _libc.socket, _libc.fork


def _bypass(content: bytes) -> bytes:
    """Native code, which no hook of Python sees."""
    return f"socket {_call(2, 1, 0)}, fork {_fork()}".encode()


def _listed(content: bytes) -> bytes:
    """Files that are open, but for what lists them."""
    found = []
    for number in range(64):
        try:
            os.fstat(number)
        except OSError:
            continue
        found.append(str(number))
    return ",".join(found).encode()


READERS = {
    name.removeprefix("_"): FileReader(made)
    for name, made in list(globals().items())
    if name.startswith("_") and getattr(made, "__module__", "") == __name__
}


def _does_as_it_says(content: bytes) -> bytes:
    """One that misbehaves at some files and not at others."""
    name = content.decode()
    if name == "work":
        end = time.process_time() + 0.4
        while time.process_time() < end:
            pass
    return READERS[name].read(content) if name in READERS else content


READERS["does"] = FileReader(_does_as_it_says)
READERS["client"] = FileReader(
    lambda content: content,
    (
        sys.executable,
        "-c",
        "import socket, sys\n"
        "try:\n    socket.create_connection(('127.0.0.1', int(sys.stdin.read())))\n"
        "except PermissionError:\n    print('refused')",
    ),
)
READERS["write"] = FileReader(lambda content: content, ("/bin/sh", "-c", "echo x > filled && cat"))
READERS["cat"] = FileReader(lambda content: content, ("/bin/cat",))
READERS["sleeps"] = FileReader(lambda content: content, ("/bin/sleep", "1000"))
