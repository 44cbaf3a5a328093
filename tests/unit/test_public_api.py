import dpicl_rag


def test_all_is_exactly_the_public_api():
    for name in dpicl_rag.__all__:
        assert getattr(dpicl_rag, name) is not None
    assert sorted(dpicl_rag.__all__) == dpicl_rag.__all__ == dir(dpicl_rag)


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(dpicl_rag, "no_such_name")
