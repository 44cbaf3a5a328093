"""Addresses of mailboxes: what they name, and that nothing of a bad one is repeated."""

import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.following.mail_account import MailAccount, accounts_of, is_address


@pytest.mark.parametrize(
    ("address", "account"),
    [
        ("imaps://ann@h.org", ("ann", "h.org", 993, ("INBOX",))),
        ("imaps://ann@h.org/", ("ann", "h.org", 993, ("INBOX",))),
        ("imaps://ann@h.org:1993/inbox", ("ann", "h.org", 1993, ("INBOX",))),
        ("IMAPS://ann@b.org@H.org/INBOX,Old", ("ann@b.org", "h.org", 993, ("INBOX", "Old"))),
        ("imaps://ann%40b.org@h.org/a%2Cb,c/d", ("ann@b.org", "h.org", 993, ("a,b", "c/d"))),
        ("imaps://ann@[::1]/Entw%C3%BCrfe", ("ann", "::1", 993, ("Entwürfe",))),
    ],
)
def test_what_an_address_names(address: str, account: tuple[str, str, int, tuple[str, ...]]):
    (found,) = accounts_of([address])
    assert (found.user, found.host, found.port, found.folders) == account
    assert is_address(address)


def test_several_addresses_of_an_account_are_one_source():
    one, other = accounts_of(
        ["imaps://ann@h.org/INBOX", "imaps://bo@h.org", "imaps://ann@h.org/Old,INBOX"]
    )
    assert one.folders == ("INBOX", "Old")
    assert one.id != other.id
    assert one.id == accounts_of(["imaps://ann@h.org/Else"])[0].id


def test_a_corpus_keeps_all_of_it_but_no_secret():
    (account,) = accounts_of(["imaps://ann@b.org@h.org:1993/INBOX,Old"], "sender")
    assert MailAccount.of(account.source) == account
    assert accounts_of([f"{account.name}/INBOX,Old"], "sender") == [account]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("imaps://ann:canary-17@h.org/INBOX", "no password stands in it"),
        ("imap://ann@h.org/canary-17", "begin the address with imaps://"),
        ("imaps://h.org/canary-17", "imaps://USER@HOST"),
        ("imaps://ann@/canary-17", "imaps://USER@HOST"),
        ("imaps://ann@h.org:canary-17/", "imaps://USER@HOST"),
        ("imaps://ann@h.org/canary-17%0d%0aA1 LOGOUT", "no control characters"),
        ("imaps://ann%00canary-17@h.org/", "no control characters"),
    ],
)
def test_what_is_no_address_is_refused_and_not_repeated(address: str, said: str):
    with pytest.raises(ConfigurationError) as refused:
        accounts_of([address])
    assert said in str(refused.value)
    assert "canary-17" not in str(refused.value)


@pytest.mark.parametrize("path", ["imaps.mbox", "./imaps:/x", "/tmp/imaps://a@b"])
def test_paths_are_no_addresses(path: str):
    assert not is_address(path)
