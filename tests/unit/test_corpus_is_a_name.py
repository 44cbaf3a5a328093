"""In a signature ``corpus`` is a name. What holds documents is a source, or documents."""

from __future__ import annotations

import ast
from pathlib import Path

import dpicl_rag

ROOT = Path(dpicl_rag.__file__).parents[1]
NAMES = {
    *("str", "str | None"),
    # Options of the command line, which are names too.
    *(
        "options.CorpusOrNone",
        "NewCorpus",
        "options.ChargedOption",
        "KeyCorpus",
        "options.CorpusName",
        "options.AnyCorpus",
        "options.CorpusArgument",
        "options.Corpus",
    ),
    "ServedCorpora",
    "PublicText",  # of a tool's arguments
    "Scope",  # of a budget, inside the ledger
}


def annotated(tree: ast.AST) -> list[tuple[int, str]]:
    """Line and annotation of every parameter and field with that name."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.arg == "corpus" and node.annotation is not None:
            found.append((node.lineno, ast.unparse(node.annotation)))
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and node.target.id == "corpus"
        ):
            found.append((node.lineno, ast.unparse(node.annotation)))
    return found


def test_it_is_a_name_everywhere():
    wrong = [
        (str(file.relative_to(ROOT)), line, annotation)
        for room in ("dpicl_rag", "integrations")
        for file in sorted((ROOT / room).rglob("*.py"))
        for line, annotation in annotated(ast.parse(file.read_text()))
        if annotation.strip("'\"") not in NAMES and not annotation.startswith("Annotated[")
    ]
    assert wrong == []


def test_another_thing_of_that_name_is_seen():
    tree = ast.parse("def ask(corpus: Corpus): ...\nclass A:\n    corpus: list[str]\n")
    assert sorted(annotated(tree)) == [(1, "Corpus"), (3, "list[str]")]
