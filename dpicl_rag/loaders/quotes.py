"""The writer's own words in a mail, without quoted mail and without a signature."""

from __future__ import annotations

import re

from mailparser_reply import EmailMessage, EmailReply
from mailparser_reply.constants import OUTLOOK_MAIL_SEPARATOR

from dpicl_rag.loaders.records import tidy

# The other languages of the library have patterns that are ordinary English ("Tak", "/word",
# a single line that begins with "Data:") and would cut text that is no quote.
_LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "ja", "ko", "zh")
# Patterns of the library take time to the fourth power of a line's length. No line that introduces
# a quote is longer than this, so longer ones are hidden from it; so is a text of book length.
_LONGEST_HEADER_LINE = 160
_LONGEST_BODY = 500_000
_MARK = "\ue000"
_HIDDEN = re.compile(f"{_MARK}(\\d+){_MARK}")
# "Thanks," may begin the writer's last words or the answer itself. It is a signature only if what
# follows looks like one.
_SIGNATURE_LINES = 8
_SIGNATURE_FIRST_LINE = 30
_RULE = re.compile(f"([^\n]){OUTLOOK_MAIL_SEPARATOR}")
_RULES = 8

# What mail programs write above a quote, in the languages of their users.
_LABEL = re.compile(r"[ \t*]*([^\s:：*][^:：*]{0,24}?)[\s*]*[:：][\s*]*(.*)")
_LABELS = {
    role: frozenset(labels.split(", "))
    for role, labels in {
        "from": "from, von, absender, de, expéditeur, remitente, da, mittente, van, afzender, od, "
        "från, fra, lähettäjä, feladó, de la, de către, από, от, от кого, від, kimden, gönderen, "
        "מאת, من, 差出人, 送信者, 보낸 사람, 보낸사람, 发件人, 發件人, 寄件者, 寄件人",
        "sent": "sent, date, gesendet, datum, envoyé, enviado, enviado el, enviado em, enviada em, "
        "fecha, data, inviato, verzonden, wysłano, skickat, sendt, dato, odesláno, odoslané, "
        "lähetetty, päivämäärä, elküldve, dátum, trimis, poslano, στάλθηκε, ημερομηνία, "
        "отправлено, дата, надіслано, gönderildi, gönderme tarihi, tarih, נשלח, תאריך, "
        "تم الإرسال, التاريخ, 送信日時, 日時, 日付, 보낸 날짜, 날짜, 发送时间, 發送時間, 傳送時間, "
        "日期, 傳送日期, 寄件日期",
        "to": "to, an, à, para, a, aan, do, till, til, vastaanottaja, címzett, komu, către, προς, "
        "кому, kime, alıcı, אל, إلى, 宛先, 받는 사람, 받는사람, 收件人, 收件者",
        "subject": "subject, betreff, objet, asunto, assunto, oggetto, onderwerp, temat, ämne, "
        "emne, aihe, tárgy, subiect, předmět, predmet, θέμα, тема, konu, נושא, الموضوع, 件名, "
        "제목, 主题, 主旨",
    }.items()
}
_WINDOW = 8  # lines of a header; a list of recipients takes some
_ORIGINAL = re.compile(
    r"[\s*]*[-_=]{2,}\s*(?:original message|forwarded message|begin forwarded message|"
    r"ursprüngliche nachricht|originalnachricht|weitergeleitete nachricht|message d.origine|"
    r"message original|message transféré|mensaje original|mensaje reenviado|mensagem original|"
    r"messaggio originale|messaggio inoltrato|oorspronkelijk bericht|doorgestuurd bericht|"
    r"oryginalna wiadomość|wiadomość oryginalna|ursprungligt meddelande|originalmeddelande|"
    r"oprindelig meddelelse|opprinnelig melding|alkuperäinen viesti|eredeti üzenet|"
    r"původní zpráva|исходное сообщение|пересылаемое сообщение|orijinal mesaj|orijinal ileti|"
    r"özgün ileti|元のメッセージ|원본 메시지|原始邮件|原始郵件)\s*[-_=]{2,}",
    re.I,
)
_ONLY_RULE = re.compile(r"[\s*_=-]*")
_WROTE = re.compile(
    r"\b(?:wrote|schrieb|écrit|escribió|escreveu|scritto|schreef|napisał(?:\(a\)|a)?|pisze|"
    r"skrev|kirjoitti|írta|napsal(?:\(a\)|a)?|έγραψε|написал(?:\(а\)|а)?|пишет|yazdı)\b"
    r"|写道|寫道|作成|書きました|작성|כתב|كتب",
    re.I,
)
_ADDRESS = re.compile(r"<[^<>\s]+@[^<>\s]+>|\[mailto:|<mailto:")
_TIME = re.compile(r"\d[:.h時시点點] ?\d\d")
_DAY = re.compile(r"\b(?:19|20)\d\d|\d[./-]\d{1,2}[./-]\d\d")
_ATTRIBUTION_LINES = 3
# What help desks ask for: answers above a line of theirs.
_ABOVE = re.compile(
    r"[\s*]*(?:##-.{1,100}-##|[-#=~<\s]*.{0,40}\b(?:reply|respond|type|write|answer)\b.{0,30}"
    r"\babove this line\b.{0,60})",
    re.I,
)
_COMMENT_RULE = re.compile(r"\s*-{20,}\s*")


class _Mail(EmailMessage):  # type: ignore[misc]  # the library is untyped
    """A mail whose text is normalised without a deprecated call.

    The library gives ``re.sub`` its flags in the place of the count, which Python 3.13 warns of.
    They have always counted as 8, so as many rules are dropped: a mail that is read again must
    come out as the one that is stored.
    """

    text: str

    def _normalize_text(self) -> None:
        lines = "\n".join(line.strip() for line in self.text.split("\n"))
        self.text = _RULE.sub(r"\1\n", lines, count=_RULES)


def own_words(body: str) -> str:
    """Cut quoted mail and the signature from the text of a mail.

    Cut are lines that begin with ``>``, all that follows "-----Original Message-----" or a block of
    From, Sent and Subject lines, and all that follows "On ... wrote:", unless its quote is marked
    with ``>``: then answers between and below the quoted lines are kept. Likewise in the other
    languages of mail programs, and below the lines of help desks.

    Returns:
        The rest; empty if there is nothing else.
    """
    hidden: list[str] = []

    def hide(line: str) -> str:
        if len(line) <= _LONGEST_HEADER_LINE or line.startswith(">"):
            return line[:_LONGEST_HEADER_LINE]
        hidden.append(line)
        return f"{_MARK}{len(hidden) - 1}{_MARK}"

    body = tidy("\n".join(_above_quotes(tidy(body).replace(_MARK, "").split("\n"))))
    if len(body) > _LONGEST_BODY:
        return tidy(_unquoted(body))
    message = _Mail(
        text="\n".join(hide(line) for line in body.split("\n")),
        languages=list(_LANGUAGES),
        keep_hyphen_lists=True,
    ).read()
    kept: list[str] = []
    for reply in message.replies:
        if not reply.headers:
            kept.append(_unquoted(_unsigned(reply)))
            continue
        quoted = reply.content.removeprefix(reply.headers).lstrip()
        if not quoted.startswith(">"):
            break
        kept.append(_unquoted(quoted))
    return tidy(_HIDDEN.sub(lambda match: hidden[int(match[1])], "\n\n".join(kept)))


def _above_quotes(lines: list[str]) -> list[str]:
    """The lines of a mail up to the first quote that is not marked with ``>``.

    Above one that is they lack what mail programs put there.
    """
    kept: list[str] = []
    asked_above = False
    at = 0
    while at < len(lines):
        line = lines[at]
        below = 0
        if len(line) <= _LONGEST_HEADER_LINE and not line.startswith(">"):
            is_own = any(not _ONLY_RULE.fullmatch(one) for one in kept if one[:1] != ">")
            if _ABOVE.fullmatch(line) and not is_own:
                asked_above, at = True, at + 1
                continue
            below = _below_header(lines, at) or _below_attribution(lines, at)
            is_older = asked_above and _COMMENT_RULE.fullmatch(line)
            if _ABOVE.fullmatch(line) or (is_older and _TIME.search(_next(lines, at + 1))):
                below = len(lines)  # older comments of a ticket
        if not below:
            kept.append(line)
        elif not _next(lines, below).startswith(">"):
            while kept and _ONLY_RULE.fullmatch(kept[-1]):
                kept.pop()
            break
        at = below or at + 1
    return kept


def _next(lines: list[str], at: int) -> str:
    """The next line that is not blank, of those that may be near."""
    return next((line for line in lines[at : at + _WINDOW] if line.strip()), "")


def _below_header(lines: list[str], at: int) -> int:
    """Where a header of a quote ends that begins at a line; 0 where none does."""
    if _ORIGINAL.match(lines[at]):
        return at + 1
    first = _LABEL.fullmatch(lines[at])
    if first is None:
        return 0
    label, value = first.groups()
    near = [_LABEL.fullmatch(one[:_LONGEST_HEADER_LINE]) for one in lines[at + 1 : at + _WINDOW]]
    first_role = _role(label)
    roles = [_role(found[1]) if found else "" for found in near] if first_role else []
    others = {*roles} - {"", first_role}
    least = 1 if first_role == "from" and "@" in value else 2
    if len(others) >= least and (first_role == "from" or "from" in roles[:3]):
        return at + 2 + max(place for place, role in enumerate(roles) if role)
    # By the shape alone, in whatever language: who, when, to whom.
    if "@" in value and len(near) > 1 and (when := near[0]) and near[1]:
        return at + 3 if _DAY.search(when[2]) and _TIME.search(when[2]) else 0
    return 0


def _role(label: str) -> str:
    name = " ".join(label.casefold().split())
    return next((role for role, labels in _LABELS.items() if name in labels), "")


def _below_attribution(lines: list[str], at: int) -> int:
    """Where "On ..., ... wrote:" ends that begins at a line; 0 where none does."""
    for end in range(at + 1, min(at + 1 + _ATTRIBUTION_LINES, len(lines) + 1)):
        last = lines[end - 1]
        if not last.strip() or last.startswith(">") or len(last) > _LONGEST_HEADER_LINE:
            return 0
        if last.rstrip(" *").endswith((":", "：")):
            is_marked = _next(lines, end).startswith(">")
            # The last line where one may begin: the writer's own words may end right above.
            starts = (start for start in range(end - 1, at, -1))
            if any(_is_attribution(lines[start:end], is_marked) for start in starts):
                return 0
            return end if _is_attribution(lines[at:end], is_marked) else 0
    return 0


def _is_attribution(lines: list[str], is_marked: bool) -> bool:
    said = " ".join(lines)
    is_told = bool(_ADDRESS.search(said)) + bool(_WROTE.search(said))
    is_dated = bool(_DAY.search(said)) + bool(_TIME.search(said))
    return is_dated > 0 and (is_told + is_dated > 2 or (is_told + is_dated > 1 and is_marked))


def _unquoted(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not line.startswith(">"))


def _unsigned(reply: EmailReply) -> str:
    content: str = reply.content
    lines = reply.signatures.split("\n")
    if len(lines) > _SIGNATURE_LINES or len(lines[0]) > _SIGNATURE_FIRST_LINE:
        return content
    return content.removesuffix(reply.signatures)
