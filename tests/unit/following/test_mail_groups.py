"""Batches of messages: cut between conversations, as units are of one load."""

import random
from collections import defaultdict

import pytest

from dpicl_rag.documents import Document
from dpicl_rag.following.followed_mail import MailGroups, batches
from dpicl_rag.loaders.loader import load_mails
from tests.support.random_mail import made


@pytest.mark.parametrize("seed", range(20))
def test_what_is_one_unit_is_one_group(seed: int):
    coins = random.Random(seed)
    mails = [made(number, coins, 40) for number in range(40)]
    mail_groups = MailGroups()
    for mail in mails:
        mail_groups.add(mail.partition(b"\r\n\r\n")[0])
    named = [(str(place), mail) for place, mail in enumerate(mails)]
    documents, _ = load_mails(named, joins="allow")  # who is withheld is looked at with the rest
    units = defaultdict(list)
    for place, document in enumerate(documents):
        assert isinstance(document, Document)
        units[document.unit].append(place)
    # Headers without a Message-ID say no less: such a message is known by its bytes, and answers
    # that name it would have to know them.
    assert sorted(mail_groups.groups()) == sorted(units.values())


def test_a_group_is_cut_only_beyond_the_bytes():
    groups = [[0, 1], [2, 3, 4], [5], [6, 7, 8]]
    sizes = [1, 1, 1, 1, 1, 1, 30, 30, 1]
    assert list(batches(groups, sizes, messages=2, most=40)) == [
        [0, 1],
        [2, 3, 4],
        [5],
        [6],
        [7, 8],
    ]
    assert list(batches([], [], 2, 40)) == []


def test_damaged_headers_are_groups_by_themselves():
    mail_groups = MailGroups()
    for header in (b"", b"\xff\xfe", b"Subject", b"Message-ID: <1@b>", b"In-Reply-To: <1@b>"):
        mail_groups.add(header)
    assert sorted(map(len, mail_groups.groups())) == [1, 1, 1, 2]
