"""Small talk, and the courtesies around a question: closed lists in five languages.

Greetings, thanks and goodbyes are small talk, about which no document is asked. Whether words are
follows from the words alone, which are public. One word beside them makes a question.
"""

from __future__ import annotations

import re
import unicodedata

from dpicl_rag.normal_forms import normal_form

_LONGEST = 100  # characters: people who say more have a question

# Without capitals, accents and apostrophes.
_SAID = """
hi, hello, hey, hiya, howdy, greetings, good morning, good afternoon, good evening, good day,
good night, nice to meet you, pleased to meet you, how are you, how are you doing, how do you do,
thanks, thx, cheers, thank you, thanks a lot, many thanks, much appreciated,
bye, goodbye, farewell, see you, see you later, see you soon, see you tomorrow, take care,
have a nice day, have a good day, have a great day, have a nice evening, have a nice weekend,
hallo, servus, moin, gruezi, gruss gott, guten tag, guten morgen, guten abend, gute nacht,
wie geht es dir, wie geht es ihnen, wie gehts, wie gehts dir, wie gehts ihnen,
danke, danke schon, dankeschon, danke sehr, vielen dank, herzlichen dank, besten dank,
tschuss, tschus, ciao, auf wiedersehen, bis bald, bis spater, bis morgen, bis dann, machs gut,
schonen tag, schonen tag noch, schonen abend, schonen abend noch, schones wochenende,
bonjour, bonsoir, salut, coucou, enchante, bonne nuit, bonne journee, bonne soiree,
ca va, comment ca va, comment vas tu, comment allez vous,
merci, merci beaucoup, merci bien, mille mercis,
adieu, au revoir, a bientot, a demain, a plus tard, a tout a lheure,
hola, buenas, buenos dias, buen dia, buenas tardes, buenas noches, mucho gusto, encantado,
que tal, como estas, como esta usted, como te va,
gracias, muchas gracias, mil gracias, muchisimas gracias,
adios, chao, hasta luego, hasta manana, hasta pronto, hasta la vista, nos vemos,
buongiorno, buonasera, buon giorno, buona sera, buona giornata, buona serata, buonanotte, salve,
come va, come stai, come sta, grazie, grazie mille, molte grazie, tante grazie,
arrivederci, a presto, a domani, a dopo, ci vediamo
"""
_BESIDE = """
there, all, everyone, everybody, again, today, ok, okay, well, great, perfect, and, you, too, so,
so much, very much, for your help, for the help, for your answer, for the answer,
zusammen, allerseits, nochmals, heute, sehr gut, prima, und, dir, ihnen, fur die hilfe,
fur die antwort, a tous, tout le monde, tres bien, et toi, et vous, pour votre aide, pour ton aide,
a todos, muy bien, y tu, y usted, por tu ayuda, por su ayuda,
a tutti, molto bene, e tu, e lei, per l aiuto, per il tuo aiuto, per il suo aiuto
"""
# Around a question, and no small talk by themselves.
_ASKING = """
please, kindly, tell me, quick question, a quick question, short question, a short question, one
question, a question, excuse me, sorry, sorry to bother you, thanks in advance, thank you in
advance, danke im voraus, vielen dank im voraus, merci davance, bitte, sagen sie mir, sag mir bitte,
kurze frage, eine kurze frage, eine frage, entschuldigung, entschuldigen sie, verzeihung, sil vous
plait, sil te plait, dites moi, une petite question, petite question, une question, excusez moi,
excuse moi, pardon, por favor, digame, dime, una pregunta, una pregunta rapida, perdon, perdone,
disculpe, disculpen, per favore, per piacere, mi dica, dimmi, una domanda, una domanda veloce,
scusi, scusa, scusate
"""


def _one_of(phrases: str) -> str:
    return "|".join(" ".join(phrase.split()) for phrase in phrases.split(","))


_FIRST, _MORE = _one_of(_SAID), _one_of(f"{_SAID},{_BESIDE}")
_SMALL_TALK = re.compile(rf"(?:(?:{_one_of(_BESIDE)}) )*(?:{_FIRST})(?: (?:{_MORE}))*")
_COURTESY = re.compile("(?:{0})(?: (?:{0}))*".format(_one_of(f"{_SAID},{_ASKING}")))
_CLAUSE = re.compile(r"(?<=[.!?:,;])\s+|\n+")
_APOSTROPHES = str.maketrans("", "", "'\u2019\u02bc`\u00b4")
_WORD = re.compile(r"\w+")


def is_small_talk(text: str) -> bool:
    """True of a greeting, thanks, a goodbye or "how are you", and nothing more.

    Args:
        text: Public. Capitals, accents, marks and emoji make no difference.
    """
    return _is(_SMALL_TALK, text)


def without_courtesies(question: str) -> str:
    """The question without greetings, thanks and "please tell me" before and behind it.

    Args:
        question: Public. Where it is nothing else it stays as it is.
    """
    clauses = _CLAUSE.split(question.strip())
    while len(clauses) > 1 and _is_courtesy(clauses[0]):
        del clauses[0]
    # Behind a colon stands what is asked about: "What is the German for: thank you?"
    while len(clauses) > 1 and clauses[-2][-1:] != ":" and _is_courtesy(clauses[-1]):
        del clauses[-1]
        clauses[-1] = clauses[-1].rstrip(" ,;")
    return " ".join(clauses)


def _is_courtesy(clause: str) -> bool:
    # "Today please" is none, though "How are you today" is small talk.
    return is_small_talk(clause) or _is(_COURTESY, clause)


def _is(kind: re.Pattern[str], text: str) -> bool:
    if len(text) > _LONGEST:
        return False
    letters = normal_form("NFKD", text.casefold().translate(_APOSTROPHES))
    plain = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return kind.fullmatch(" ".join(_WORD.findall(plain))) is not None
