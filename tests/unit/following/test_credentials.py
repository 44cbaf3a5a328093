"""Secrets of accounts: where they come from, and that no error, repr or log has them."""

import sys
from types import ModuleType

import pytest

from dpicl_rag.errors import ConfigurationError, LoaderError
from dpicl_rag.following.mail_account import PASSWORD, Credential, accounts_of, credential_of

CANARY = "canary-4471"
(ACCOUNT,) = accounts_of(["imaps://ann@b.org@h.org/INBOX"])


@pytest.fixture(autouse=True)
def keyring(monkeypatch: pytest.MonkeyPatch):
    """A keyring that knows nobody."""
    monkeypatch.delenv(PASSWORD, raising=False)
    module = ModuleType("keyring")
    module.get_password = lambda service, name: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", module)
    return module


def printing(text: str) -> str:
    return f"{sys.executable} -c \"print('{text}')\""


def test_a_token_comes_first_then_the_variable_then_the_keyring(keyring, monkeypatch):
    asked = []
    keyring.get_password = lambda *names: asked.append(names) or "from the keyring"
    assert credential_of(ACCOUNT) == Credential("from the keyring", is_token=False)
    assert asked == [("dpicl-rag", "ann@b.org@h.org")]
    monkeypatch.setenv(PASSWORD, CANARY)
    assert credential_of(ACCOUNT) == Credential(CANARY, is_token=False)
    assert credential_of(ACCOUNT, printing("ya29")) == Credential("ya29", is_token=True)


def test_without_any_the_ways_are_named(keyring, monkeypatch):
    with pytest.raises(ConfigurationError, match=r"keyring set dpicl-rag ann@b\.org@h\.org"):
        credential_of(ACCOUNT)

    def locked(*_: str) -> str:
        raise RuntimeError(CANARY)

    keyring.get_password = locked
    with pytest.raises(ConfigurationError, match=PASSWORD):
        credential_of(ACCOUNT)
    monkeypatch.setitem(sys.modules, "keyring", None)  # not installed
    with pytest.raises(ConfigurationError, match="pip install keyring"):
        credential_of(ACCOUNT)


@pytest.mark.parametrize(
    "command",
    [
        f"{sys.executable} -c \"print('{CANARY}'); raise SystemExit(1)\"",
        f"/nowhere/{CANARY}",
        printing(f"{CANARY} and more"),
        printing(""),
        "'",
        "",
    ],
    ids=["fails", "is not there", "prints words", "prints nothing", "no command", "empty"],
)
def test_a_command_that_fails_is_not_quoted(command: str):
    with pytest.raises((LoaderError, ConfigurationError)) as failed:
        credential_of(ACCOUNT, command)
    assert CANARY not in str(failed.value)
    assert failed.value.__cause__ is None


def test_no_shell_reads_a_command(tmp_path):
    mark = tmp_path / "mark"
    assert credential_of(ACCOUNT, f"echo t>{mark}").secret == f"t>{mark}"
    assert not mark.exists()


def test_a_secret_is_not_shown():
    assert CANARY not in repr(Credential(CANARY, is_token=False))
