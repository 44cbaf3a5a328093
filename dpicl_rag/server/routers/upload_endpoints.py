"""Uploads of owners: a form with a file, and the corpus that it goes into."""

import math
from contextlib import ExitStack
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect

from dpicl_rag.answering.worker_threads import in_thread
from dpicl_rag.corpora.folder import require_corpus_name
from dpicl_rag.errors import CorpusError
from dpicl_rag.loaders.columns import header_as_written
from dpicl_rag.server.admission import MOST_EPSILON
from dpicl_rag.server.api_keys import Caller
from dpicl_rag.server.dependencies import Owning, ServerParts, Using
from dpicl_rag.server.failures import Refusal
from dpicl_rag.server.jobs import Job, Stopped
from dpicl_rag.server.service import PUBLIC
from dpicl_rag.server.uploads import Received, Unit, Uploads

UPLOAD_PATH = "/v1/owner/documents"
FORM_BYTES = 64 * 1024
"""Bytes of a form, beside the file."""

_FIELD_LETTERS = 256
_FIELDS = ("corpus", "epsilon", "unit", "text_field", "key_field", "header", "records")
_SCHEMA = {
    "type": "object",
    "required": ["corpus", "file"],
    "properties": {
        **{name: {"type": "string"} for name in _FIELDS},
        "file": {"type": "string", "format": "binary"},
    },
}
_FORM = {"required": True, "content": {"multipart/form-data": {"schema": _SCHEMA}}}

router = APIRouter()


@router.post(UPLOAD_PATH, status_code=202, openapi_extra={"requestBody": _FORM})
async def upload(request: Request, parts: Using, owner: Owning) -> dict[str, Any]:
    """Read a mailbox, table or document into a corpus, which can be asked when that is done."""
    uploads, service, admission = parts.uploads, parts.service, parts.admission
    if uploads is None:
        raise Refusal(404, "no uploads here; use `dpicl-rag ingest`", code="no_uploads")
    with parts.jobs.begun("ingest", "", owner) as job, ExitStack() as stack:
        stack.enter_context(uploads.alone())
        job.at("Receiving the file")
        receiving = _received(request, job, uploads, parts, owner)
        try:
            received, epsilon = await job.until_stopped(receiving, admission.check)
        except Stopped:
            raise Refusal(409, "the upload was stopped", code="job_stopped") from None
        claim = partial(_claim, parts, uploads, owner, job.corpus, epsilon)
        reading = stack.pop_all()

        async def read(job: Job) -> dict[str, Any]:
            with reading:
                return await uploads.ingest(job, service, admission, received, claim)

        parts.jobs.run(job, read)
    return job.view()


def _require_own(parts: ServerParts, uploads: Uploads, owner: Caller, corpus: str) -> None:
    """Refuse a corpus that an owner may not fill."""
    if not owner.may_ask(corpus) or uploads.is_taken(corpus, parts.service):
        # One sentence for what is another key's, what is not served and what this key may not.
        raise Refusal(
            403,
            "this key cannot fill a corpus of that name; choose another. A corpus whose store was "
            "lost goes on under its budget where `dpicl-rag ingest` reads it in beside the server",
            param="corpus",
        )


def _claim(
    parts: ServerParts, uploads: Uploads, owner: Caller, corpus: str, epsilon: float | None
) -> None:
    """Make a corpus ready to be filled: a new one is the owner's alone, and has a budget."""
    _require_own(parts, uploads, owner, corpus)
    if corpus not in parts.service.corpora:
        if parts.keys is not None:
            parts.keys.close_corpus(corpus, owner)
        if parts.auditor is not None:
            parts.auditor.forget(corpus)  # of one that was deleted, maybe another owner's
    uploads.give_budget(corpus, parts.service, epsilon)


async def _received(
    request: Request, job: Job, uploads: Uploads, parts: ServerParts, owner: Caller
) -> tuple[Received, float | None]:
    """What has come, and the budget for it.

    Raises:
        Refusal: The form is not as it should be.
    """
    try:
        # Starlette keeps what is larger than 1 MiB in a file.
        async with request.form(max_files=1, max_fields=8, max_part_size=FORM_BYTES) as form:
            file = form.get("file")
            if not isinstance(file, UploadFile):
                raise _wrong("send the document as the field file", "file")
            fields = {name: _short(name, form.get(name)) for name in _FIELDS}
            epsilon = _epsilon(fields.pop("epsilon"))
            name = _corpus(fields.pop("corpus"))
            await in_thread(_require_own, parts, uploads, owner, name)
            job.corpus = name
            # The form's own file is read in a worker thread, so that answers go on.
            path = await in_thread(uploads.keep, job.corpus, file.filename or "", file.file)
    except ClientDisconnect:
        raise Refusal(400, "the upload broke off; send it again") from None
    except OSError as error:
        # Of this very file, to its owner.
        raise Refusal(
            507,
            f"the upload cannot be stored ({error.strerror}); see that the server has space for it",
            kind="server_error",
            code="no_space",
        ) from None
    except (HTTPException, MultiPartException, UnicodeError) as error:
        status = error.status_code if isinstance(error, HTTPException) else 400
        if status == 413:
            raise Refusal(413, f"an upload has at most {uploads.most_bytes:,} bytes") from None
        if status != 400:
            raise
        raise _wrong("send a form of the kind multipart/form-data", None) from None
    header = header_as_written(fields.pop("header"))
    return (path, Unit(**fields, header=header)), epsilon


def _corpus(name: str | None) -> str:
    if name is None:
        raise _wrong("name the corpus", "corpus")
    try:
        require_corpus_name(name)
    except CorpusError as error:
        raise _wrong(str(error), "corpus") from None
    if name == PUBLIC:
        raise _wrong(f"{PUBLIC!r} is the model without documents; choose another name", "corpus")
    return name


def _epsilon(given: str | None) -> float | None:
    if given is None:
        return None
    try:
        found = float(given)
    except ValueError:
        found = math.nan
    if not 0 < found <= MOST_EPSILON:
        raise _wrong(f"epsilon is a number above 0, at most {MOST_EPSILON:,.0f}", "epsilon")
    return found


def _short(name: str, value: Any) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > _FIELD_LETTERS or not value.isprintable():
        raise _wrong(f"{name} is a short text", name)
    if not value.strip():  # a unit that was meant to be a column, and would be each row
        raise _wrong(f"{name} is empty; fill it in, or leave the field out", name)
    return value


def _wrong(message: str, param: str | None) -> Refusal:
    return Refusal(400, message, param=param)
