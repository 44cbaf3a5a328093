"""Values that name somebody, and their equality however they were written."""

from __future__ import annotations

import re
from decimal import Decimal

from dpicl_rag.loaders.records import Record
from dpicl_rag.normal_forms import normal_form

# How programs write a whole number once its column has become one of floats. Nothing else is taken
# for a number: 007 and 1e3 are names.
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)\.0+")
_LARGE = re.compile(r"-?[1-9](?:\.[0-9]+)?e\+[0-9]{2}")


def key_form(value: str) -> str:
    """One form for all ways of writing the same name.

    Letters are composed (NFC), any blanks are one plain blank, and a whole number has no fraction.
    """
    form = " ".join(normal_form("NFC", value).split())
    if "." not in form and "+" not in form:
        return form
    if _WHOLE.fullmatch(form):
        form = form.partition(".")[0]
        return "0" if form == "-0" else form
    if _LARGE.fullmatch(form):
        number = Decimal(form)
        return f"{number:.0f}" if number == number.to_integral_value() else form
    return form


def name_in(record: Record, field: str) -> str:
    """The name in a field of a record; empty where there is none.

    Bytes that are no characters read the same as others. A hash in the name keeps them apart.
    """
    form = key_form(record.metadata.get(field, ""))
    exact = record.exact.get(field, "")
    return f"{form} [{exact}]" if form and exact else form
