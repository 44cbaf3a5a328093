"""Settings of a corpus that is served, beside those of an answer."""

SEARCH = frozenset({"threshold", "top_k"})
PROMPT = frozenset({"system", "answer_prefix"})
