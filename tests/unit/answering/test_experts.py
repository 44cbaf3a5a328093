from collections import Counter

from dpicl_rag.answering.experts import one_each, random_groups
from dpicl_rag.documents import Document, group_by_unit
from dpicl_rag.mechanisms.randomness import Randomness

DOCUMENTS = [Document("a1", "a"), Document("b1", "b"), Document("a2", "a"), Document("c1", "c")]


def test_all_documents_of_a_unit_reach_one_expert():
    experts = one_each(group_by_unit(DOCUMENTS))
    assert [expert.passages for expert in experts] == [("a1", "a2"), ("b1",), ("c1",)]


def test_the_number_of_groups_is_public_and_every_unit_is_in_one():
    for documents in (DOCUMENTS, DOCUMENTS[:1], []):
        groups = random_groups(one_each(group_by_unit(documents)), 5, Randomness())
        assert len(groups) == 5
        found = Counter(passage for group in groups for passage in group.passages)
        assert found == Counter(document.text for document in documents)


def test_a_unit_is_never_split_over_groups():
    for _ in range(20):
        groups = random_groups(one_each(group_by_unit(DOCUMENTS)), 3, Randomness())
        homes = [group for group in groups if "a" in group.units]
        assert len(homes) == 1
        assert {"a1", "a2"} <= set(homes[0].passages)


def test_repr_shows_nothing():
    # Words that no address in memory can spell.
    shown = repr(one_each({"UNIT": [Document("SECRET", "UNIT")]})[0])
    assert "SECRET" not in shown
    assert "UNIT" not in shown
