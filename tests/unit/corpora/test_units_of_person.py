"""Units that a person is in, by whole addresses and names in the fields of records."""

import pytest

from dpicl_rag.corpora.units_of_person import units_of_person
from dpicl_rag.retrieval.stored_record import StoredRecord

RECORDS = [
    StoredRecord("1", "t1", "Ask Ann about it.", {"from": "Bob <bob@x.example>", "n": 3}),
    StoredRecord("2", "t2", "", {"from": "Ann Lee <ANN@x.example>", "to": "bob@x.example"}),
    StoredRecord("3", "t2", "", {"to": "Desk <desk@x.example>, Ann Lee <ann@x.example>"}),
    StoredRecord("4", "t3", "", {"from": "joann@x.example", "subject": "ann@x.example.org"}),
    StoredRecord("5", "ann lee", "", {}),
]


@pytest.mark.parametrize(
    ("person", "units"),
    [
        ("ann@x.example", {"t2": 2}),
        ("Ann  LEE", {"t2": 2, "ann lee": 1}),
        ("bob@x.example", {"t1": 1, "t2": 1}),
        ("ann", {}),
        ("x.example", {}),
        ("", {}),
    ],
)
def test_a_person_is_in_the_units_whose_fields_say_so(person, units):
    assert units_of_person(RECORDS, person) == units


@pytest.mark.parametrize(
    "field",
    ["Lee, Ann <ann@x.example>", "Bo <bo@x.example>; Ann <ANN@x.example>", "Ann (<ann@x.example>"],
)
def test_an_address_is_found_in_a_list_that_python_does_not_read(field, monkeypatch):
    monkeypatch.setattr("dpicl_rag.corpora.units_of_person.getaddresses", lambda _: [("", "")])
    records = [StoredRecord("1", "t1", "", {"to": field})]
    assert units_of_person(records, "ann@x.example") == {"t1": 1}
    assert units_of_person(records, "n@x.example") == {}


@pytest.mark.parametrize("left_out", range(len(RECORDS)))
def test_other_units_are_listed_alike_without_one(left_out):
    gone = RECORDS[left_out].unit
    others = [record for record in RECORDS if record.unit != gone]
    for person in ("ann@x.example", "Ann Lee", "bob@x.example"):
        whole = units_of_person(RECORDS, person)
        whole.pop(gone, None)
        assert units_of_person(others, person) == whole
