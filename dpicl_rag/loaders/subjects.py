"""Subjects of mail, and the marks that replies, forwards and gateways put before them."""

from __future__ import annotations

import re

from dpicl_rag.normal_forms import normal_form

# "Re:" and its like in the languages of common mail programs, also "Re[2]:" and "RE (3) :".
_REPLY = (
    r"re|r|aw|antw|antwort|sv|vs|ref|rif|res|odp|ynt|atb|回复|答复|返信|답장|"
    r"auto(?:matic)?[ -]?reply|automatische antwort|réponse automatique|respuesta automática|"
    r"risposta automatica|automatisch antwoord|自动答复|自動回覆|自動応答"
)
_FORWARD = r"fw|fwd|wg|tr|rv|enc|i|doorst|vb|vl|pd|weitergeleitet|转发|転送|전달"
_LABEL = r"external(?: e-?mail)?|extern[ea]?|ext"  # of gateways: it says where a mail came from
_COUNT = r" ?(?:\[\d+\]|\(\d+\))? ?[:：] ?"
_MARK = re.compile(
    rf"(?:(?P<reply>{_REPLY})|(?P<forward>{_FORWARD})|(?:{_LABEL})){_COUNT}"
    rf"|[({{<*]{{1,3}} ?(?:{_LABEL}) ?[)}}>*]{{1,3}} ?[:：]? ?"
    r"|\[[^\]]{1,40}\] ?[:：]? ?"
)
_SUFFIX = re.compile(r" ?\((?:fwd|fw|wg)\)$")
# Subjects that mail programs fill in when the writer gave none.
_NO_SUBJECT = frozenset(
    [
        "no subject",
        "(no subject)",
        "<no subject>",
        "none",
        "(none)",
        "kein betreff",
        "(kein betreff)",
    ]
)
# A subject longer than this is compared by its beginning, as mail programs cut it too.
_LONGEST = 500


def normalise(subject: str) -> str:
    """A subject without reply and forward marks, list tags, labels, case and extra blanks.

    Empty for a subject that says nothing, so that such messages are not taken for one thread.
    """
    rest, _ = _unmarked(subject)
    return "" if rest in _NO_SUBJECT else rest


def is_reply(subject: str) -> bool:
    """Whether the outermost mark of a subject is that of a reply."""
    return _unmarked(subject)[1][:1] == ["reply"]


def is_forward(subject: str) -> bool:
    """Whether the outermost mark of a subject is that of a forward."""
    return _unmarked(subject)[1][:1] == ["forward"]


def is_marked(subject: str) -> bool:
    """Whether a subject says that its mail answers or forwards another."""
    return bool(_unmarked(subject)[1])


def _unmarked(subject: str) -> tuple[str, list[str]]:
    """A subject without what was put before it, and the marks that were, the outermost first."""
    rest = " ".join(normal_form("NFC", subject[:_LONGEST]).split()).casefold()
    marks: list[str] = []
    while True:
        if found := _MARK.match(rest):
            marks += [found.lastgroup] if found.lastgroup else []
            rest = rest[found.end() :].strip()
        elif found := _SUFFIX.search(rest):
            marks.append("forward")
            rest = rest[: found.start()].strip()
        else:
            return rest, marks
