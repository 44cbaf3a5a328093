"""`dpicl_rag.accounting` offers its names."""

from dpicl_rag import accounting


def test_every_public_name_resolves() -> None:
    for name in accounting.__all__:
        assert getattr(accounting, name) is not None
    assert len(set(accounting.__all__)) == len(accounting.__all__)
