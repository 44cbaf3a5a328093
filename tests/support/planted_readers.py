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

from dpicl_rag.conversion import confinement
from dpicl_rag.conversion.child import Reader

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
    os.write(1, b"half")
    os.close(1)
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
        held.append(bytearray(2**24))


def _map(content: bytes) -> bytes:
    return bytes(len(mmap.mmap(-1, 2**40)))


def _fill(content: bytes) -> bytes:
    with open("filled", "wb") as file:
        while True:
            file.write(bytes(2**20))


def _flood(content: bytes) -> bytes:
    while True:
        os.write(1, bytes(2**16))


def _open_many(content: bytes) -> bytes:
    return bytes(len([os.open(".", os.O_RDONLY) for _ in range(10_000)]))


def _connect(content: bytes) -> bytes:
    socket.create_connection(("127.0.0.1", int(content)))
    return b"connected"


def _resolve(content: bytes) -> bytes:
    return socket.gethostbyname("localhost").encode()


def _run(content: bytes) -> bytes:
    return subprocess.check_output(["/bin/sh", "-c", "echo ran"])  # noqa: S603


def _thread(content: bytes) -> bytes:
    thread = threading.Thread(target=print)
    thread.start()
    thread.join()
    return b"ran"


def _raise(content: bytes) -> bytes:
    raise ValueError(content.decode())


def _print(content: bytes) -> bytes:
    print(content.decode())
    sys.stdout.flush()
    print(content.decode(), file=sys.stderr)
    return b"quiet"


_socket = ctypes.CDLL(None, use_errno=True).socket


def _bypass(content: bytes) -> bytes:
    """Native code, which no hook of Python sees."""
    return b"reached" if _socket(2, 1, 0) >= 0 else f"errno {ctypes.get_errno()}".encode()


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


def _without_kernel(content: bytes) -> bytes:
    return str(sys.platform == "linux" and bool(confinement._MACHINES)).encode()


READERS = {
    name.removeprefix("_"): Reader(made)
    for name, made in list(globals().items())
    if name.startswith("_") and getattr(made, "__module__", "") == __name__
}
READERS["shell"] = Reader(
    lambda content: content, ("/bin/sh", "-c", "cat; exec 3<>/dev/tcp/127.0.0.1/9 || echo no")
)
READERS["write"] = Reader(lambda content: content, ("/bin/sh", "-c", "echo x > filled && cat"))
READERS["cat"] = Reader(lambda content: content, ("/bin/cat",))
READERS["sleeps"] = Reader(lambda content: content, ("/bin/sleep", "1000"))
