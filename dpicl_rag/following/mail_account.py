"""Accounts on mail servers, ``imaps://USER@HOST/FOLDER,FOLDER``, their secrets and sessions.

Folders are looked at and never changed. Nothing that a server says is repeated in an error: it may
quote a mail or a password.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import ssl
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import imapclient

from dpicl_rag._unobserved import Private, unobserved
from dpicl_rag.corpora.holdings import StoredSource
from dpicl_rag.errors import ConfigurationError, LoaderError
from dpicl_rag.files.tables import pages
from dpicl_rag.loaders.characters import fingerprint

KIND = "imap"
PORT = 993
PASSWORD = "DPICL_RAG_IMAP_PASSWORD"  # noqa: S105 - the name of a variable
SERVICE = "dpicl-rag"

_SCHEMES = ("imaps://", "imap://")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PATIENCE_S = 120.0  # for the token command
_FORM = "imaps://USER@HOST/FOLDER, with several folders as FOLDER,FOLDER"


@dataclass(frozen=True, slots=True)
class MailAccount:
    """An account on a mail server, and which of its folders are followed. Of its owner.

    Attributes:
        user: Its name there.
        host: The server.
        port: For IMAP over TLS.
        folders: Names of folders, in the order given.
        unit: The privacy unit of its mail, as for ``load``.
    """

    user: str
    host: str
    port: int
    folders: tuple[str, ...]
    unit: str | None = None

    @property
    def name(self) -> str:
        """The account without its folders, as messages name it."""
        port = "" if self.port == PORT else f":{self.port}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"imaps://{quote(self.user, safe='@')}@{host}{port}"

    @property
    def id(self) -> str:
        """The name of the source in a corpus: whatever folders are followed, it is one."""
        return fingerprint(json.dumps([KIND, self.user, self.host, self.port]))[:16]

    @property
    def source(self) -> StoredSource:
        """As a corpus keeps it."""
        spec = [self.user, self.host, self.port, list(self.folders), self.unit]
        return StoredSource(self.id, KIND, json.dumps(spec))

    @classmethod
    def of(cls, source: StoredSource) -> MailAccount:
        """The account that a corpus follows."""
        user, host, port, folders, unit = json.loads(source.spec)
        return cls(user, host, port, tuple(folders), unit)

    def with_folders(self, folders: Iterable[str]) -> MailAccount:
        """The account, of which more folders are followed."""
        return replace(self, folders=tuple(dict.fromkeys((*self.folders, *folders))))

    def without(self, folders: Iterable[str]) -> MailAccount:
        """The account, of which some folders are followed no more."""
        return replace(self, folders=tuple(one for one in self.folders if one not in set(folders)))


def is_address(source: str) -> bool:
    """Test for a mailbox on a server, which is no path."""
    return source.lower().startswith(_SCHEMES)


def accounts_of(addresses: Sequence[str], unit: str | None = None) -> list[MailAccount]:
    """The accounts that addresses name, each with all of its folders.

    Raises:
        ConfigurationError: One is no such address, would go unencrypted, or has a password in it.
            The message repeats nothing of it.
    """
    accounts: dict[str, MailAccount] = {}
    for address in addresses:
        account = _account(address, unit)
        accounts[account.id] = accounts.get(account.id, account).with_folders(account.folders)
    return list(accounts.values())


def _account(address: str, unit: str | None) -> MailAccount:
    try:
        parts = urlsplit(address)
        user, password, host, port = parts.username, parts.password, parts.hostname, parts.port
    except ValueError:
        raise ConfigurationError(f"an address of a mailbox is {_FORM}") from None
    if password is not None:
        raise ConfigurationError(
            "an address is kept and shown, so no password stands in it: change that password, and "
            "put the new one into the keyring or DPICL_RAG_IMAP_PASSWORD"
        )
    if parts.scheme.lower() != "imaps":
        raise ConfigurationError("mail is read over TLS alone: begin the address with imaps://")
    if not user or not host or parts.query or parts.fragment:
        raise ConfigurationError(f"an address of a mailbox is {_FORM}")
    folders = [unquote(one) for one in parts.path.removeprefix("/").split(",")]
    if any(_CONTROL.search(unquote(text)) for text in (user, *folders)):
        raise ConfigurationError("an address of a mailbox has no control characters")
    # INBOX is the same folder in any case (RFC 3501, 5.1).
    names = ["INBOX" if name.upper() == "INBOX" else name for name in folders if name] or ["INBOX"]
    return MailAccount(unquote(user), host, port or PORT, tuple(dict.fromkeys(names)), unit)


@dataclass(frozen=True, slots=True, repr=False)
class Credential:
    """A secret.

    Attributes:
        secret: A password, or a token of OAuth.
        is_token: Which of the two.
    """

    secret: str
    is_token: bool

    def __repr__(self) -> str:
        return "Credential(<secret>)"


def credential_of(account: MailAccount, token_command: str | None = None) -> Credential:
    """The secret of an account: what a command prints, else a variable, else the keyring.

    Args:
        account: Whose.
        token_command: A command that prints a token of OAuth; no shell runs it.

    Raises:
        ConfigurationError: There is none.
        LoaderError: The command failed. What it printed is not repeated.
    """
    if token_command is not None:
        return Credential(_printed(token_command), is_token=True)
    secret = os.environ.get(PASSWORD) or _from_keyring(account)
    if not secret:
        raise ConfigurationError(
            f"no password for {account.name}: put it into the keyring (pip install keyring; "
            f"keyring set {SERVICE} {_keyring_name(account)}) or into {PASSWORD}, or name a "
            "command that prints a token (--token-command)"
        )
    return Credential(secret, is_token=False)


def _printed(command: str) -> str:
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if not words:
        raise ConfigurationError("--token-command is a command and its arguments")
    try:
        done = subprocess.run(  # noqa: S603 - the owner's own command
            words, capture_output=True, text=True, timeout=_PATIENCE_S, check=True
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        raise LoaderError("the token command failed; run it by itself to see why") from None
    token = done.stdout.strip()
    if not token or len(token.split()) > 1:
        raise LoaderError("the token command prints no token; it must print one and nothing else")
    return token


def _from_keyring(account: MailAccount) -> str | None:
    try:
        keyring = import_module("keyring")
    except ImportError:
        return None
    try:
        password: str | None = keyring.get_password(SERVICE, _keyring_name(account))
    except Exception:  # backends fail in many ways: none is there, it is locked
        return None
    return password


def _keyring_name(account: MailAccount) -> str:
    return f"{account.user}@{account.host}"


PATIENCE_S = 120.0  # for an answer of the server

_PAGE = 500  # messages named in one command: lines have at most 8,000 bytes
_WINDOW = 50_000  # messages that one search may name: imaplib reads lines of a million bytes
_HEADERS = "MESSAGE-ID REFERENCES IN-REPLY-TO SUBJECT FROM TO CC DATE"
_HEADER_ITEM = f"BODY.PEEK[HEADER.FIELDS ({_HEADERS})]"


@dataclass(frozen=True, slots=True)
class Listing:
    """The messages of a folder.

    Attributes:
        validity: Its UIDVALIDITY: with another one all numbers mean other messages.
        uids: Numbers of the messages that are not marked as deleted, in order.
    """

    validity: int
    uids: Sequence[int]


@dataclass(frozen=True, slots=True, repr=False)
class Header(Private):
    """Headers of a message that tell which it is. Private.

    Attributes:
        raw: As they are.
        size: Of the whole message, in bytes.
    """

    raw: bytes
    size: int


class MailSession(Private):
    """An open session; a context manager.

    Raises:
        LoaderError: The server cannot be reached or is not trusted, or refuses the credential.
        ConfigurationError: The file holds no certificates.
    """

    def __init__(
        self, account: MailAccount, credential: Credential, ca_file: Path | None = None
    ) -> None:
        self.account = account
        self._selected: tuple[str, int] | None = None
        context = _context(ca_file)
        with self._explained():
            self._client: Any = imapclient.IMAPClient(
                account.host, port=account.port, ssl_context=context, timeout=PATIENCE_S
            )
        try:
            self._log_in(credential)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> MailSession:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the session, whatever state it is in."""
        with unobserved():
            try:
                self._client.logout()
            except Exception:  # it is over, one way or the other
                with suppress(Exception):  # the socket is gone already
                    self._client.shutdown()

    def listing(self, folder: str) -> Listing:
        """The messages of a folder as they are now.

        Raises:
            LoaderError: There is no such folder, or the connection broke.
        """
        validity, count = self._select(folder)
        if count <= _WINDOW:
            return Listing(validity, self._search(count))
        # The windows are commands of their own, and messages may go between them.
        before: list[int] | None = None
        while (now := self._search(count)) != before:
            before = now
            _, count = self._select(folder)
        return Listing(validity, now)

    def headers(self, folder: str, validity: int, uids: Sequence[int]) -> dict[int, Header]:
        """Headers of messages by their numbers, of those that are still there.

        Raises:
            LoaderError: The folder was numbered anew meanwhile, or the connection broke.
        """
        found = {}
        for uid, items in self._fetch(folder, validity, uids, [_HEADER_ITEM, "RFC822.SIZE"]):
            raw = next((v for k, v in items.items() if k.startswith(b"BODY[HEADER")), None)
            found[uid] = Header(raw or b"", int(items.get(b"RFC822.SIZE") or 0))
        return found

    def messages(self, folder: str, validity: int, uids: Sequence[int]) -> dict[int, bytes]:
        """Whole messages by their numbers, of those that are still there; none becomes seen.

        Raises:
            LoaderError: The folder was numbered anew meanwhile, or the connection broke.
        """
        found = self._fetch(folder, validity, uids, ["BODY.PEEK[]"])
        return {uid: items[b"BODY[]"] or b"" for uid, items in found if b"BODY[]" in items}

    def _fetch(
        self, folder: str, validity: int, uids: Sequence[int], items: Sequence[str]
    ) -> Iterator[tuple[int, dict[bytes, Any]]]:
        if self._selected != (folder, validity) and self._select(folder)[0] != validity:
            raise LoaderError(
                f"{self.account.name}: the folder {folder} was numbered anew while it was read; "
                "run the same command again"
            )
        for page in pages(uids, _PAGE):
            with self._explained():
                found = self._client.fetch(list(page), items)
            yield from found.items()

    def _search(self, count: int) -> list[int]:
        uids: set[int] = set()
        for first in range(1, count + 1, _WINDOW):
            last = min(first + _WINDOW - 1, count)
            with self._explained():
                uids.update(self._client.search([f"{first}:{last}", "UNDELETED"]))
        return sorted(uids)

    def _select(self, folder: str) -> tuple[int, int]:
        """Look at a folder: its UIDVALIDITY, and how many messages it has."""
        self._selected = None
        with self._explained(folder):
            status = self._client.select_folder(folder, readonly=True)
        validity = status.get(b"UIDVALIDITY")
        if validity is None:
            raise LoaderError(
                f"{self.account.name}: the server keeps no numbers of the mails in {folder}; "
                "download them as mbox or maildir and ingest that"
            )
        self._selected = folder, int(validity)
        return int(validity), int(status.get(b"EXISTS") or 0)

    def _log_in(self, credential: Credential) -> None:
        user = self.account.user
        with self._explained():
            try:
                if credential.is_token:
                    self._client.oauth2_login(user, credential.secret)
                elif credential.secret.isascii() and user.isascii():
                    self._client.login(user, credential.secret)
                else:  # LOGIN is for ASCII; PLAIN is UTF-8 (RFC 4616)
                    self._client.plain_login(user, credential.secret)
            except imapclient.exceptions.IMAPClientAbortError:
                raise
            except imapclient.exceptions.IMAPClientError:
                what = "token" if credential.is_token else "password"
                raise LoaderError(
                    f"{self.account.name} refuses the {what}; renew it, or see whether this "
                    "account wants a password for programs or --token-command"
                ) from None

    @contextmanager
    def _explained(self, folder: str | None = None) -> Iterator[None]:
        """Give what a server or the way to it does wrong one line and a remedy."""
        name = self.account.name
        try:
            with unobserved():
                yield
        except ssl.SSLCertVerificationError:
            raise LoaderError(
                f"the certificate of {name} is not trusted; if it is your own server, give its "
                "certificate with --ca-file"
            ) from None
        except (imapclient.exceptions.IMAPClientAbortError, OSError, EOFError):
            raise LoaderError(
                f"{name} cannot be reached, or the connection broke; check the address and the "
                "network, and run the same command again: it goes on where it stopped"
            ) from None
        except imapclient.exceptions.IMAPClientError:
            raise LoaderError(
                f"{name}: the server refused a command; run the same command again"
                if folder is None
                else f"{name} has no folder {folder} that can be read; name another, or stop "
                "following it: `dpicl-rag sync CORPUS --drop ADDRESS`"
            ) from None


def _context(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError):
        raise ConfigurationError(
            f"{ca_file} holds no certificates that can be read; --ca-file is a file in PEM form"
        ) from None
