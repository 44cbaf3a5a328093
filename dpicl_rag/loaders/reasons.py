"""Reasons for which a record, or a file, is not read: a few fixed phrases, with the remedy."""

from __future__ import annotations

MOST_ATTACHMENTS = 20
"""Of a message. A stranger could attach a thousand files, each of which takes its time."""

BINARY = "binary data"
BROKEN_MESSAGE = "the message cannot be parsed"
BAD_HEADER = "the row that names the columns cannot be read, so none of the table is"
DAMAGED = "the file is damaged; nothing of it is loaded"
EMPTY = "empty"
FOR_MACHINES = "a report for mail servers"
JSON_ARRAY = "no whole JSON array; nothing of it is loaded"
JSON_OBJECT = (
    "one JSON object, not a list of them; name the list that holds its records by --records NAME "
    "(records= in Python), or, where it is one record, save it on a line of a file that ends in "
    ".jsonl"
)
SPAM = "spam, trash or a draft by Gmail's labels; --spam, or spam=True, reads it"
LINK = "a link, which is not followed; load what it leads to by its own path"
MESSAGE_WITHIN = "a message within a message; save it and load it by itself"
NESTED = "nested too deeply"
NO_HEADER = (
    "its first row looks like a record or a title, not like names of columns; say which line names "
    "them by --header LINE (1: this one is right), or name them by --header NAME,NAME, or say "
    "--no-header; in Python header=LINE, a list of names, or False"
)
NO_LINE = "it ends before the line that is to name its columns (--header LINE)"
NO_SEPARATOR = "without a header a table is separated by commas, and this one is likely not; say so"
UNSAVED = "formulas whose values were not saved with them; open the file and save it again"
NO_KEY = "no value in the key field"
NO_HEADERS = "no mail headers"
NO_TEXT_FIELD = "no text in the text field"
NO_UNIT = "no value for the privacy unit"
NOT_AN_OBJECT = "not a JSON object"
NOT_CONVERTED = "not read without the extra `files`: pip install 'dpicl-rag[files]'"
NOT_CSV = "not valid CSV: a quote or a line end in the wrong place"
NOT_JSON = "not valid JSON"
NOT_HERE = "read on Linux and macOS only; save it as text"
OF_A_MAILBOX = "a part of a mailbox of Apple Mail, of which the messages are read"
SEALED = "encrypted, or signed as a whole; save it in your mail program as it is shown there"
TIES_MANY = (
    "it would make more than 3 conversations one, as somebody does who answers in those of others; "
    "--yes, or joins='allow', reads it"
)
TOO_LARGE = "larger than 16 MiB"
FILE_TOO_LARGE = "larger than 100 MiB"
TOO_MANY_ATTACHMENTS = f"more than {MOST_ATTACHMENTS} attachments"
TOO_MANY_COLUMNS = "more than 1,000 fields"
TOO_MANY_PARTS = "more than 1,000 parts"
TOO_MANY_FIELDS = "more fields than the header has columns"
UNCLOSED_QUOTE = "a quote that is not closed"
UNREADABLE_FILE = "the file cannot be read"
UNREADABLE_FOLDER = "the folder cannot be read"
WINMAIL = "Outlook's winmail.dat; ask for it as HTML or text, or unpack it"
UNSUPPORTED = "not a supported kind of file"

#: What to do with files of kinds that are not read, by their endings.
WAYS_OUT: dict[str, str] = {
    ".numbers": "export it as CSV or .xlsx",
    **dict.fromkeys(
        (".parquet", ".feather", ".arrow", ".avro", ".orc", ".sqlite", ".db", ".pkl"),
        "export it as CSV or JSON Lines",
    ),
    **dict.fromkeys((".doc", ".dot", ".pages", ".wpd"), "save it as .docx or text"),
    **dict.fromkeys((".ppt", ".odp", ".key"), "save it as .pptx or PDF"),
    **dict.fromkeys((".pst", ".ost", ".olm"), "export it as .eml or mbox"),
    **dict.fromkeys((".zip", ".tar", ".tgz", ".7z", ".rar", ".bz2", ".xz", ".zst"), "unpack it"),
}
