import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.prompts import Example
from dpicl_rag.synthesis.released_records import Synthesis, SyntheticRecord

RECORDS = (
    SyntheticRecord("The disease is Überfieber.\u2028", None, "fieber", 9, "end"),
    SyntheticRecord("Shares fell.", "Business", None, 4, "length"),
    SyntheticRecord("", "Sports", None, 0, "interrupted"),
)
MADE = Synthesis(RECORDS, 8.0, 1e-5, 1.23, {"method": "exponential"})


def test_records_are_written_and_read_back(tmp_path):
    MADE.write(tmp_path / "new" / "records.jsonl")
    assert Synthesis.read(tmp_path / "new" / "records.jsonl") == MADE


def test_damaged_and_missing_files_are_one_sentence(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Synthesis.read(tmp_path / "records.jsonl")
    MADE.write(tmp_path / "records.jsonl")
    (tmp_path / "records.jsonl").write_text('{"text": 3')
    with pytest.raises(ConfigurationError, match="damaged"):
        Synthesis.read(tmp_path / "records.jsonl")


def test_labelled_records_become_examples():
    assert MADE.as_examples("Which topic?") == (
        Example("Shares fell.", "Which topic?", "Business"),
    )
