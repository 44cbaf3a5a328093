"""Schemas: what is public about a table, and what is refused."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.tabular.schema import PACKAGED, Category, Label, Number, Schema, serialise_row
from tests.support.private_rows import SCHEMA

GOOD = """
text = "{age} years."
question = "Rich?"
group_by = ["age"]
[label]
name = "rich"
values = ["No", "Yes"]
aliases = { 0 = "No", 1 = "Yes" }
[[column]]
kind = "number"
name = "age"
low = 0
high = 100
cuts = [30, 60]
[[column]]
kind = "category"
name = "job"
values = ["clerk", "smith"]
"""


@pytest.fixture
def written(tmp_path):
    def write(text=GOOD):
        (tmp_path / "schema.toml").write_text(text)
        return tmp_path / "schema.toml"

    return write


@pytest.mark.parametrize("name", PACKAGED)
def test_packaged_schemas_are_whole(name):
    schema = Schema.read(name)
    assert schema.label.values == ("No", "Yes")
    assert len(schema.group_by) == 2
    for column in schema.columns:
        assert f"{{{column.name}}}" in schema.text
        places = range(column.size)
        assert [column.place(column.example(place)) for place in places] == list(places)
        assert {column.bit(column.of_bit(bit)) for bit in (0, 1)} == {0, 1}
        assert len(set(column.names)) == column.size


def test_a_user_s_own_schema_is_read(written):
    schema = Schema.read(written())
    assert [column.size for column in schema.columns] == [3, 3]
    assert schema.encode({"age": 31, "job": "smith", "rich": 1}).places == (1, 1)
    assert schema.digest != SCHEMA.digest
    assert schema.digest == Schema.read(written()).digest


def test_values_outside_the_schema():
    age, job, _ = SCHEMA.columns
    assert [
        age.place(v) for v in (-5, 0, 30, "59.9", 60, 1e12, "inf", None, "?", float("nan"))
    ] == [
        *(0, 0, 1, 1, 2, 2, 2),
        *(0, 0, 0),
    ]
    assert [job.place(v) for v in ("clerk", " teller ", "smith", "Smith", None, 10**5000)] == [
        *(0, 0, 1, 2, 2, 2)
    ]
    assert job.words("secret agent") == "other"
    assert age.words(10**400) == "100"
    assert SCHEMA.label.place("maybe") is None
    assert Category("c", ("a", "other", "b")).place("zzz") == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("cuts = [30, 60]", 'cuts = "quantile"'), "know beforehand"),
        (("cuts = [30, 60]", 'cuts = "mean"'), "know beforehand"),
        (("cuts = [30, 60]", 'cuts = ["mean"]'), "valid number"),
        (("low = 0", 'low = "infer"'), "know beforehand"),
        (('["clerk", "smith"]', '"infer"'), "know beforehand"),
        (("high = 100", "high = inf"), "finite"),
        (("high = 100\n", ""), "Field required"),
        (("cuts = [30, 60]", "cuts = [60, 30]"), "ascend"),
        (("cuts = [30, 60]", "cuts = []"), "ascend"),
        (("cuts = [30, 60]", "cuts = [0]"), "ascend"),
        (('["clerk", "smith"]', '["clerk", "clerk"]'), "twice"),
        (('["clerk", "smith"]', "[]"), "know beforehand"),
        (('name = "job"', 'name = "age"'), "twice"),
        (('name = "job"', 'name = "rich"'), "twice"),
        (('"{age} years."', '"{wage} years."'), "'wage'"),
        (('group_by = ["age"]', 'group_by = ["wage"]'), "'wage'"),
        (('["No", "Yes"]', '["No"]'), "two answers"),
        (('1 = "Yes"', '1 = "Yeah"'), "'Yeah'"),
        (('kind = "number"', 'kind = "date"'), "tag"),
        (("low = 0", "low = 0\nlowest = 1"), "lowest"),
        (("[label]", "[labels]"), "label"),
        (("low = 0", "low = "), "no TOML"),
    ],
)
def test_what_is_refused_is_one_sentence(written, change, said):
    with pytest.raises(ConfigurationError, match=said) as caught:
        Schema.read(written(GOOD.replace(*change, 1)))
    assert "schema.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_such_schema(tmp_path):
    with pytest.raises(ConfigurationError, match="one of adult, bank"):
        Schema.read(tmp_path / "absent.toml")
    with pytest.raises(ConfigurationError, match="has age, job, gain"):
        SCHEMA.column("wage")


def test_python_s_own_are_checked_alike():
    with pytest.raises(ConfigurationError, match="know beforehand"):
        Number("age", 0, 1, "mean")
    with pytest.raises(ConfigurationError, match="know beforehand"):
        Category("job", "infer")
    with pytest.raises(ConfigurationError, match="one number for each"):
        Number("age", 0, 10, (5,), typical=(1,))
    with pytest.raises(ConfigurationError, match="'boss'"):
        Category("job", ("clerk",), shown={"boss": "a boss"})
    with pytest.raises(ConfigurationError, match="at least one column"):
        Schema((), Label("rich", ("No", "Yes")))


@settings(
    max_examples=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    st.dictionaries(
        st.sampled_from(["age", "job", "gain", "rich", "more"]),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text()),
    )
)
def test_no_row_is_an_error(row):
    encoded = SCHEMA.encode(row)
    for column, place in zip(SCHEMA.columns, encoded.places, strict=True):
        assert 0 <= place < column.size
        assert column.words(row.get(column.name)) != ""
    assert encoded.label in (None, 0, 1)
    assert serialise_row(row, SCHEMA).endswith(".")
