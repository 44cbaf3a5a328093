"""Readings of yes and no as made-up models have them."""

from dpicl_rag.rehearsal import YesOrNo
from dpicl_rag.rehearsal.yes_or_no import Rate

GUESSING = YesOrNo("plain", 0.0, 0.0, Rate(0.5, 0.0), Rate(0.5, 0.0))
"""Of a model that cannot count."""

SEEING = YesOrNo("plain", 0.0, 0.0, Rate(0.9, 0.001), Rate(0.95, 0.0004))
"""Of a model that can, and is asked in one pass."""
