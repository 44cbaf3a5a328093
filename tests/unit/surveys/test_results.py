"""Results say their numbers in words, and as bars in notebooks."""

from dataclasses import replace

from dpicl_rag.results import Estimate
from dpicl_rag.surveys.survey_results import (
    LISTED,
    PrivateCount,
    PrivateSurvey,
    PrivateTally,
    SurveyedTheme,
)
from tests.support.readings import SEEING

LEFT_OUT = "Units that have spent their budget are not counted."
MANY, FEW = Estimate(120, 110, 130), Estimate(0, 0, 9)


def tally(**counts):
    return PrivateTally("what?", counts, Estimate(160, 140, 180), 1.0, 1e-5, 0.02)


def test_a_count_says_what_its_interval_holds():
    count = PrivateCount("broken?", MANY, 1.0, 1e-5, 0.02)
    assert count.text == (
        "About 120 of the documents (110 to 130) say yes. "
        "Ranges are of noise alone, not of what is misread."
    )
    corrected = replace(count, reading=SEEING.clear)
    assert corrected.text == (
        "About 120 of the documents (110 to 130) say yes. Ranges are of noise and misreading: on "
        "public documents the model reads 90 in 100 that say yes right, and 95 in 100 that say no."
    )
    assert (count.as_dict()["read_right"], corrected.as_dict()["read_right"]) == (
        None,
        {"yes": 0.9, "no": 0.95},
    )
    some = replace(count, complete=False, asked=205)
    assert some.text.endswith("Of about 205 documents: " + LEFT_OUT[:1].lower() + LEFT_OUT[1:])
    assert replace(some, asked=None).text.endswith(LEFT_OUT)
    assert "broken?" in count._repr_html_()
    assert "0.02" in count._repr_html_()


def test_a_tally_tells_the_most_frequent_first():
    found = tally(late=FEW, refund=MANY)
    assert found.text == (
        "About 120 of 160 answers (110 to 130) are “refund”; 0 (0 to 9) are “late”. "
        "Ranges are of noise alone, not of what is misread."
    )
    html = found._repr_html_()
    assert html.index("refund") < html.index("late")


def test_a_survey_lists_as_many_themes_as_a_reader_takes_in():
    themes = tuple(
        SurveyedTheme(f"theme {number}", {f"word {number}": MANY}, MANY) for number in range(30)
    )
    found = PrivateSurvey(None, themes, FEW, Estimate(900, 800, 1000), 12, 1.0, 1e-5, 0.02)
    assert found.text.count("about theme ") == LISTED
    assert found.text.endswith(
        "; 0 (0 to 9) are about none of these. Smaller themes that are left out: 6. "
        "Themes of fewer than about 12 documents were not seen."
    )
    assert len(found.as_dict()["themes"]) == 30


def test_what_labels_say_is_escaped():
    assert "<b>" not in tally(**{"<b>": MANY})._repr_html_()
