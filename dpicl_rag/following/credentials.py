"""What an account on a mail server is opened with: a password or a token, never written down."""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import dataclass
from importlib import import_module

from dpicl_rag.errors import ConfigurationError, LoaderError
from dpicl_rag.following.mail_address import MailAccount

PASSWORD = "DPICL_RAG_IMAP_PASSWORD"  # noqa: S105 - the name of a variable
SERVICE = "dpicl-rag"

_PATIENCE_S = 120.0


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
        found: str | None = keyring.get_password(SERVICE, _keyring_name(account))
    except Exception:  # backends fail in many ways: none is there, it is locked
        return None
    return found


def _keyring_name(account: MailAccount) -> str:
    return f"{account.user}@{account.host}"
