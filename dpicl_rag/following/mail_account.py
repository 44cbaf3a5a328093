"""Accounts on mail servers, ``imaps://USER@HOST/FOLDER,FOLDER``, and the secret that opens them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from urllib.parse import quote, unquote, urlsplit

from dpicl_rag.corpora.holdings import StoredSource
from dpicl_rag.errors import ConfigurationError, LoaderError
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
