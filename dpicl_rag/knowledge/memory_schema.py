"""Tables of a memory's file.

The file holds questions and released answers. Answers are public; who asked what may not be, so
the file is made for its owner alone.
"""

from __future__ import annotations

from dpicl_rag.errors import KnowledgeError
from dpicl_rag.files.database import FileKind

_SCHEMA = (
    # key: the server's key that asked, '' for none. A key made again under a name is another one.
    # words: the question as it is compared. form: what else shaped the answer; '' fits every one.
    # drawn: token by token, where experts did not say the same.
    # numbers: those of a count, as JSON; '' of an answer.
    # AUTOINCREMENT: a number that was shown is never another entry's.
    """CREATE TABLE entry (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        corpus TEXT NOT NULL CHECK (typeof(corpus) = 'text'),
        caller TEXT NOT NULL CHECK (typeof(caller) = 'text'),
        part TEXT NOT NULL CHECK (typeof(part) = 'text'),
        key TEXT NOT NULL CHECK (typeof(key) = 'text'),
        form TEXT NOT NULL CHECK (typeof(form) = 'text'),
        words TEXT NOT NULL CHECK (typeof(words) = 'text'),
        question TEXT NOT NULL CHECK (typeof(question) = 'text'),
        answer TEXT NOT NULL CHECK (typeof(answer) = 'text'),
        epsilon REAL NOT NULL CHECK (typeof(epsilon) = 'real' AND epsilon >= 0),
        delta REAL NOT NULL CHECK (typeof(delta) = 'real' AND delta BETWEEN 0 AND 1),
        released INTEGER NOT NULL
            CHECK (typeof(released) = 'integer' AND released BETWEEN 0 AND 200000000000),
        whole INTEGER NOT NULL CHECK (whole IN (0, 1)),
        edited INTEGER NOT NULL DEFAULT 0 CHECK (edited IN (0, 1)),
        embedder TEXT,
        vector BLOB CHECK (vector IS NULL OR typeof(vector) = 'blob'),
        drawn INTEGER NOT NULL DEFAULT 0 CHECK (drawn IN (0, 1)),
        numbers TEXT NOT NULL DEFAULT '' CHECK (typeof(numbers) = 'text'),
        UNIQUE (corpus, caller, part, key, form, words)
    )""",
)

MEMORY = FileKind(
    noun="memory",
    holds="the answers in it",
    error=KnowledgeError,
    application_id=0x4450414D,  # "DPAM"
    version=5,
    schema=_SCHEMA,
    remedy="go on with that version, or delete the file: its answers are then forgotten, and cost "
    "again what they cost",
)
