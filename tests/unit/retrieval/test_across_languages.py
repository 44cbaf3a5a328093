"""A question in several languages finds what it asks for, and not its languages."""

import numpy as np
import pytest

from dpicl_rag.languages.languages import QuestionKind, languages, worked_examples
from dpicl_rag.retrieval import NoisyThreshold, Search
from dpicl_rag.retrieval.across_languages import vectors_across_languages
from dpicl_rag.retrieval.embeddings import SentenceTransformerEmbedder
from dpicl_rag.retrieval.search_bars import COARSE, DEEP, THRESHOLD, Threshold
from dpicl_rag.retrieval.stored_record import StoredRecord
from dpicl_rag.retrieval.vectors import scan
from dpicl_rag.stores.cached_vectors import InMemoryVectors

EMBEDDER = SentenceTransformerEmbedder()
WORDINGS = (
    "Wer ist für Rechnungen zuständig?",
    "Who is responsible for invoices?",
    "¿Quién es responsable de las facturas?",
)
MAILS = {
    "tells": "Invoices go to Ngozi Okafor on the third floor.",
    "bins": "¿Qué día se recoge la basura? Espero que estén todos bien.",
    "keys": "Guten Tag, wer ist denn für den Aufzug zuständig?",
}


class Counting:
    """An embedder of fixed vectors that notes how often it is asked."""

    def __init__(self, vectors):
        self.fingerprint = f"counting {id(self)}"
        self.calls = 0
        self._vectors = vectors

    def embed(self, texts, *, query=False):
        self.calls += 1
        return np.array([self._vectors(text) for text in texts], dtype=np.float32)


def asked_of(language):
    return [one.question for kind in QuestionKind for one in worked_examples(language, kind)]


def test_what_tells_a_language_is_taken_out():
    found = vectors_across_languages(EMBEDDER, WORDINGS).astype(np.float64)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    for language in languages():
        shown = sorted(set(asked_of(language.code)))
        mean = EMBEDDER.embed(shown, query=True).mean(axis=0)
        np.testing.assert_allclose(found @ mean, 0, atol=1e-6)


@pytest.mark.parametrize(("by_content", "nearest"), [(False, "keys"), (True, "tells")])
def test_a_mail_that_tells_is_nearer_than_one_in_the_language_of_the_question(by_content, nearest):
    vectors = EMBEDDER.embed(list(MAILS.values()))
    records = [StoredRecord(unit, unit, text) for unit, text in MAILS.items()]
    source = InMemoryVectors(EMBEDDER, lambda: zip(records, vectors, strict=True))
    near = scan(source, WORDINGS, by_content=by_content)
    assert near.units[int(near.scores.argmax())] == nearest


def test_a_question_of_which_nothing_is_left_keeps_its_vector():
    flat = Counting(lambda text: (1.0, 0.0) if text == "?" else (0.6, 0.8))
    own = Counting(lambda _: (1.0, 0.0))
    np.testing.assert_allclose(vectors_across_languages(flat, ["?"]), [[0.8, -0.6]], atol=1e-6)
    np.testing.assert_allclose(vectors_across_languages(own, ["?"]), [[1.0, 0.0]])


def test_public_questions_are_embedded_once_for_an_embedder():
    embedder = Counting(lambda text: (1.0, len(text) % 3))
    for _ in range(3):
        vectors_across_languages(embedder, ["Who?"])
    assert embedder.calls == 3 + len(languages())


def test_cosines_that_are_named_stay_cosines():
    source = InMemoryVectors(EMBEDDER, list)
    usual = Search(source, NoisyThreshold(64)).across_languages()
    assert (usual.by_content, tuple(usual.bar.thresholds), usual.bar.units) == (True, DEEP, 64)
    assert DEEP[: len(COARSE)] == COARSE
    for bar in (Threshold(THRESHOLD), NoisyThreshold(64, (0.5, 0.4))):
        named = Search(source, bar)
        assert named.across_languages() is named
