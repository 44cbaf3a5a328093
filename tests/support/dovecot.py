"""A mail server of the tests' own: Dovecot over TLS, with a certificate that it made itself."""

from __future__ import annotations

import grp
import os
import pwd
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

PROGRAM = "/usr/sbin/dovecot"
USER, PASSWORD, TOKEN = "ann@example.org", "tür-9931-canary", "ya29-canary-token"

_CONFIGURATION = """
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
protocols = imap
listen = 127.0.0.1
ssl = required
ssl_cert = <{folder}/cert.pem
ssl_key = <{folder}/key.pem
ssl_dh =
auth_mechanisms = plain login xoauth2
auth_failure_delay = 0
default_internal_user = {internal}
default_internal_group = {internal_group}
default_login_user = {login}
mail_location = maildir:{folder}/mail
mailbox_list_index = no
first_valid_uid = 1
first_valid_gid = 1
mail_uid = {uid}
mail_gid = {gid}
mail_max_userip_connections = 100
passdb {{
  driver = passwd-file
  args = scheme=plain {folder}/users
}}
passdb {{
  driver = oauth2
  mechanisms = xoauth2
  args = {folder}/oauth2
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={folder}/home
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = 0
  }}
  inet_listener imaps {{
    port = {port}
    ssl = yes
  }}
}}
service anvil {{
  chroot =
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
service stats {{
  chroot =
}}
protocol imap {{
  rawlog_dir = {folder}/rawlog
}}
"""


class Dovecot:
    """A server that runs, and the mailbox of its one user.

    Attributes:
        port: Of IMAP over TLS.
        certificate: Its own, in a file.
    """

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        self.port = port
        self.certificate = folder / "cert.pem"
        self._names = count()

    def address(self, *folders: str) -> str:
        return f"imaps://{USER}@localhost:{self.port}/{','.join(folders)}"

    def deliver(self, mails: Sequence[bytes], folder: str = "INBOX") -> None:
        """Put messages where the server finds them."""
        maildir = self._maildir(folder)
        new = []
        for name in ("", "cur", "new", "tmp"):
            place = maildir / name
            if not place.is_dir():
                place.mkdir(parents=True)
                new.append(place)
        for mail in mails:
            file = maildir / "new" / f"1700000000.M{next(self._names):06d}.here"
            file.write_bytes(mail)
            new.append(file)
        if os.geteuid() == 0:
            for one in new:
                os.chown(one, _uid(), _gid())

    def client(self) -> Any:
        """A session of another program, which may change what is there."""
        import imapclient

        context = ssl.create_default_context(cafile=self.certificate)
        client = imapclient.IMAPClient("localhost", self.port, ssl_context=context, timeout=60)
        client.plain_login(USER, PASSWORD)
        return client

    def renumber(self, folder: str) -> None:
        """Have the server number a folder anew, as where it was restored from a backup."""
        for file in self._maildir(folder).glob("dovecot*"):
            if file.name == "dovecot-uidlist" or file.name.startswith("dovecot.index"):
                file.unlink()

    def bodies_sent(self) -> Counter[bytes]:
        """How often each message was sent as a whole, by its Message-ID."""
        sent: Counter[bytes] = Counter()
        for log in (self._folder / "rawlog").glob("*.out"):
            whole = log.read_bytes()
            for match in re.finditer(rb"BODY\[\] \{(\d+)\}\r\n", whole):
                mail = whole[match.end() : match.end() + int(match[1])]
                found = re.search(rb"(?i)message-id: *(\S+)", mail)
                sent[found[1] if found else b""] += 1
        return sent

    def _maildir(self, folder: str) -> Path:
        mail = self._folder / "mail"
        return mail if folder == "INBOX" else mail / f".{folder}"


@pytest.fixture(scope="session")
def dovecot_program() -> str:
    """Where the server is; skips where it is not installed."""
    if not Path(PROGRAM).is_file() or shutil.which("openssl") is None:
        pytest.skip("no Dovecot here: apt-get install dovecot-imapd openssl")
    pytest.importorskip("imapclient")
    return PROGRAM


@pytest.fixture
def dovecot(dovecot_program: str) -> Iterator[Dovecot]:
    """A server with an empty mailbox."""
    with server(dovecot_program) as running:
        yield running


@contextmanager
def server(program: str = PROGRAM) -> Iterator[Dovecot]:
    """Start a server in a folder of its own, and stop it."""
    folder = Path(tempfile.mkdtemp(prefix="dove", dir="/tmp"))  # names of its sockets must be short
    folder.chmod(0o755)
    with _token_server() as tokens:
        _write(folder, port := _free_port(), tokens)
        command = [program, "-F", "-c", str(folder / "conf")]
        process = subprocess.Popen(command, start_new_session=True)
        try:
            _wait(process, port, folder)
            yield Dovecot(folder, port)
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # by itself it takes a second to end
            process.wait(30)
            shutil.rmtree(folder, ignore_errors=True)


def mail(number: int, text: str = "", *, answers: int | None = None, folder: str = "") -> bytes:
    """A message that is like no other."""
    reference = "" if answers is None else f"In-Reply-To: <m{answers}@example.org>\r\n"
    return (
        f"Message-ID: <m{number}@example.org>\r\nFrom: Bo <bo{number % 7}@example.org>\r\n"
        f"To: ann@example.org\r\nSubject: matter {number}\r\n{reference}"
        f"Date: Tue, 14 Nov 2023 07:05:{number % 60:02d} +0000\r\n\r\n"
        f"{text or f'This is what mail {number} says.'}\r\n"
    ).encode()


def _write(folder: Path, port: int, tokens: int) -> None:
    for name in ("mail", "home", "rawlog", "run", "state"):
        (folder / name).mkdir()
        if os.geteuid() == 0 and name in ("mail", "home", "rawlog"):
            os.chown(folder / name, _uid(), _gid())
    (folder / "users").write_text(f"{USER}:{{PLAIN}}{PASSWORD}\n", encoding="utf-8")
    (folder / "oauth2").write_text(
        f"introspection_mode = get\nintrospection_url = http://127.0.0.1:{tokens}/?token=\n"
        "username_attribute = email\nactive_attribute = active\nactive_value = true\n"
    )
    is_root = os.geteuid() == 0
    me = pwd.getpwuid(os.geteuid())
    settings = {
        "internal": "dovecot" if is_root else me.pw_name,
        "internal_group": "dovecot" if is_root else grp.getgrgid(me.pw_gid).gr_name,
        "login": "dovenull" if is_root else me.pw_name,
    }
    (folder / "conf").write_text(
        _CONFIGURATION.format(folder=folder, port=port, uid=_uid(), gid=_gid(), **settings)
    )
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext"
    subprocess.run(
        [
            *command.split(),
            "subjectAltName=DNS:localhost",
            "-keyout",
            "key.pem",
            "-out",
            "cert.pem",
        ],
        cwd=folder,
        check=True,
        capture_output=True,
    )


def _wait(process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    for _ in range(300):
        if process.poll() is not None:
            log = folder / "log"
            told = log.read_text() if log.exists() else ""
            pytest.skip(f"Dovecot does not start here: {told}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.skip("Dovecot does not answer here")


@contextmanager
def _token_server() -> Iterator[int]:
    """What Dovecot asks about tokens."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            right = f"token={TOKEN}&" in self.path
            body = f'{{"email": "{USER}", "active": {str(right).lower()}}}'.encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield http.server_address[1]
    finally:
        http.shutdown()
        http.server_close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _uid() -> int:
    return pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else os.geteuid()


def _gid() -> int:
    return pwd.getpwnam("nobody").pw_gid if os.geteuid() == 0 else os.getegid()
