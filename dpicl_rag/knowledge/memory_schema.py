"""Tables of a memory's file.

The file holds questions and released answers. Answers are public; who asked what may not be, so
the file is made for its owner alone.
"""

from __future__ import annotations

from dpicl_rag.errors import KnowledgeError
from dpicl_rag.files.database import FileKind

_VERSION_1 = (
    # words: the question as it is compared. form: what else shaped the answer; '' fits every one.
    # AUTOINCREMENT: a number that was shown is never another entry's.
    """CREATE TABLE entry (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        corpus TEXT NOT NULL CHECK (typeof(corpus) = 'text'),
        caller TEXT NOT NULL CHECK (typeof(caller) = 'text'),
        part TEXT NOT NULL CHECK (typeof(part) = 'text'),
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
        UNIQUE (corpus, caller, part, form, words)
    )""",
)

# key: the server's key that asked, '' for none. A key made again under a name is another one. What
# was kept before keys were distinguished is read by none: nobody knows which of them had asked.
_VERSION_2 = (
    "ALTER TABLE entry RENAME TO entry_of_names",
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
        UNIQUE (corpus, caller, part, key, form, words)
    )""",
    """INSERT INTO entry SELECT id, corpus, caller, part, '', form, words, question, answer,
        epsilon, delta, released, whole, edited, embedder, vector FROM entry_of_names""",
    "DELETE FROM sqlite_sequence WHERE name = 'entry'",
    "UPDATE sqlite_sequence SET name = 'entry' WHERE name = 'entry_of_names'",
    "DROP TABLE entry_of_names",
)

# drawn: token by token, where experts did not say the same. What was kept before is not told apart.
_VERSION_3 = (
    "ALTER TABLE entry ADD COLUMN drawn INTEGER NOT NULL DEFAULT 0 CHECK (drawn IN (0, 1))",
)

# numbers: those of a count, as JSON; '' of an answer.
_VERSION_4 = (
    "ALTER TABLE entry ADD COLUMN numbers TEXT NOT NULL DEFAULT ''"
    " CHECK (typeof(numbers) = 'text')",
)

MEMORY = FileKind(
    noun="memory",
    holds="the answers in it",
    error=KnowledgeError,
    application_id=0x4450414D,  # "DPAM"
    migrations=(_VERSION_1, _VERSION_2, _VERSION_3, _VERSION_4),
)
