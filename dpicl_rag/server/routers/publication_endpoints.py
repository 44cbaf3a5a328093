"""Bundles that owners publish: the price of each item, the job, and the folder as one file."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from dpicl_rag.accounting import DELTA
from dpicl_rag.errors import KnowledgeError, StoppedError
from dpicl_rag.knowledge import Bundle
from dpicl_rag.knowledge.bundle import MANIFEST
from dpicl_rag.language_models.turns import taking_turns
from dpicl_rag.publishing import plan_publication, publish, remembered_items
from dpicl_rag.requests import Request
from dpicl_rag.server.admission import MOST_EPSILON
from dpicl_rag.server.api_keys import Caller
from dpicl_rag.server.dependencies import Owning, ServerParts, Using
from dpicl_rag.server.failures import Refusal
from dpicl_rag.server.jobs import Job
from dpicl_rag.server.protocol.request_bodies import LONGEST_QUESTION, PublicText

_MOST_ITEMS = 64

_Question = Annotated[str, Field(min_length=1, max_length=LONGEST_QUESTION)]

router = APIRouter()


class Column(BaseModel):
    """A metadata column whose values are counted.

    Attributes:
        name: Of the column. Public.
        values: That are counted; those that enough units have where there are none. Public.
    """

    model_config = ConfigDict(extra="forbid")

    name: PublicText
    values: list[PublicText] = Field(default_factory=list, max_length=256)


class Publication(BaseModel):
    """A bundle to publish. All of it is public.

    Attributes:
        corpus: Name of the corpus.
        epsilon: All items together are (epsilon, delta)-DP for every unit.
        delta: See ``epsilon``.
        survey: Whether it says what the documents are about.
        questions: Each is answered or counted, as it asks.
        columns: Whose values are counted.
        remembered: How many remembered answers to the owner stand in it, the most asked ones.
        again: Whether it takes the place of the bundle that there is, and is paid for anew.
    """

    model_config = ConfigDict(extra="forbid")

    corpus: PublicText
    epsilon: float = Field(2.0, gt=0, le=MOST_EPSILON, allow_inf_nan=False)
    delta: float = Field(DELTA, gt=0, lt=1)
    survey: bool = True
    questions: list[_Question] = Field(default_factory=list, max_length=_MOST_ITEMS)
    columns: list[Column] = Field(default_factory=list, max_length=_MOST_ITEMS)
    remembered: int = Field(0, ge=0, le=1000)
    again: bool = False

    def requests(self) -> list[Request]:
        """What is asked of the documents, each question once."""
        found = [Request.of("survey")] if self.survey else []
        found += [Request.of("column", column=one.name, labels=one.values) for one in self.columns]
        return found + [Request.of(None, question=one) for one in dict.fromkeys(self.questions)]


@router.post("/v1/owner/publications/plan")
def plan(body: Publication, parts: Using, owner: Owning) -> dict[str, Any]:
    """What each item costs at most; free, as nothing is searched."""
    _folder(body.corpus, parts, owner)
    llm, documents = parts.service.publisher(body.corpus, owner)
    budget = {"epsilon": body.epsilon, "delta": body.delta}
    return plan_publication(llm, documents, body.requests(), **budget).as_dict()


@router.post("/v1/owner/publications", status_code=202)
async def publication(body: Publication, parts: Using, owner: Owning) -> dict[str, Any]:
    """Publish a bundle beside the requests. Stopped between two items it goes on when asked again.

    Each item is paid for by the corpus, and by the owner's key, as any question is.
    """
    folder = _folder(body.corpus, parts, owner)
    if (folder / MANIFEST).exists() and not body.again:
        raise Refusal(
            409,
            "this corpus was published; publish it again, which is another release and paid anew",
            code="published",
            param="again",
        )
    requests = body.requests()
    llm, documents = parts.service.publisher(body.corpus, owner)
    with parts.jobs.begun("publish", body.corpus, owner) as job:
        job.at("Publishing")

        def between() -> None:
            if parts.admission.draining:
                raise StoppedError("the server is going down")

        def work() -> dict[str, Any]:
            with taking_turns(between):
                made = publish(
                    llm,
                    documents,
                    folder,
                    requests,
                    epsilon=body.epsilon,
                    delta=body.delta,
                    beside=remembered_items(
                        parts.service.most_asked(body.corpus, owner, body.remembered)
                    ),
                    again=body.again,
                    on_progress=partial(job.at, "Publishing"),
                )
            beside = {"lost": [*made.lost], "changes": [*made.changes], "release": made.release}
            return {"items": len(made.items), "rho": made.rho, **beside}

        async def run(_: Job) -> dict[str, Any]:
            return await parts.admission.take(work)

        parts.jobs.run(job, run)
    return job.view()


@router.get(
    "/v1/owner/publications/{corpus}",
    response_class=Response,
    responses={200: {"content": {"application/zip": {}}}},
)
def packed(corpus: str, parts: Using, owner: Owning) -> Response:
    """The bundle of a corpus in one file, for any machine: `serve --published` reads its folder."""
    folder = _folder(corpus, parts, owner)
    try:
        content = Bundle.packed(folder)
    except KnowledgeError:
        raise Refusal(404, "this corpus was not published here yet", code="no_bundle") from None
    named = {"Content-Disposition": 'attachment; filename="bundle.zip"'}
    return Response(content, media_type="application/zip", headers=named)


def _folder(corpus: str, parts: ServerParts, owner: Caller) -> Path:
    """Where the bundle of a corpus is.

    Raises:
        Refusal: It is not the owner's to publish, or nothing is published here.
    """
    parts.service.counted_corpus(corpus, owner)
    if parts.published is None:
        raise Refusal(404, "no bundles here; use `dpicl-rag publish`", code="no_publications")
    return parts.published / corpus
