"""Readings of yes and no as made-up models have them."""

from dpicl_rag.rehearsal import Labelling, Reading, YesOrNo
from dpicl_rag.rehearsal.yes_or_no import MeasuredRate


class _Known(YesOrNo):
    """All questions are clear, and no public document is read."""

    __slots__ = ()

    def reading(self, model, question):
        return self.clear


_GUESSING = Reading(0.0, MeasuredRate(0.5, 0.0), MeasuredRate(0.5, 0.0))
_SEEING = Reading(0.0, MeasuredRate(0.9, 0.001), MeasuredRate(0.95, 0.0004))
GUESSING = _Known("plain", _GUESSING, _GUESSING)
"""Of a model that cannot count."""

SEEING = _Known("plain", _SEEING, _GUESSING)
"""Of a model that can."""

LABELLING = Labelling("plain", _SEEING)
"""Of a model that can tally."""

GUESSED_LABELS = Labelling("plain", _GUESSING)
"""Of one that cannot."""
