"""What is read of a mail that is asked for a label, or for yes or no."""

import pytest

from dpicl_rag import PromptTemplate
from dpicl_rag.answering.labels import label_reading

MAIL = "From: Ida <ida@elm.example>\nDate: 3 Oct\nSubject: A\n\nWe open at 6.\n\nIda\nElm Court 4"
SAID = "Subject: A\n\nWe open at 6."


@pytest.mark.parametrize(
    ("question", "labels", "read"),
    [
        ("Is it about parking?", ["Yes", "No"], f"From: Ida\n{SAID}"),
        ("Was it written in October?", ["Yes", "No"], f"From: Ida\nDate: 3 Oct\n{SAID}"),
        ("In which month?", ["October", "May"], f"From: Ida\nDate: 3 Oct\n{SAID}"),
    ],
)
def test_its_signature_is_not_read_and_its_date_where_a_day_is_asked_for(
    tiny_model, question, labels, read
):
    prompt = PromptTemplate().cut(tiny_model.tokenizer, question)
    how = label_reading(None, tiny_model, question, labels, prompt, [[1], [2]], 200)
    assert tiny_model.tokenizer.decode(how.digest([MAIL, "No head."])) == f"{read}\n\nNo head."
