"""Surveys: how many units of a corpus say something."""

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from dpicl_rag.answering.label_reading import most_label_tokens
from dpicl_rag.server.catalogue import NumbersAsked
from dpicl_rag.server.delivery import GONE, unless_gone
from dpicl_rag.server.failures import Refusal
from dpicl_rag.server.request_log import Exchange
from dpicl_rag.server.services import Asking, Using
from dpicl_rag.surveys.counts_units import ReadBy
from dpicl_rag.surveys.estimate import within
from dpicl_rag.surveys.survey_plan import VOTES, survey_plan
from dpicl_rag.surveys.vocabulary import packaged_words

router = APIRouter()

PublicText = Annotated[str, Field(min_length=1, max_length=512)]


class SurveyRequest(BaseModel):
    """The body of ``/v1/surveys``. All of it is public."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: PublicText
    kind: Literal["count", "tally", "survey"]
    question: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    labels: list[PublicText] = Field(default_factory=list, max_length=256)
    most: int = Field(1, ge=1)
    sample: float = Field(1.0, gt=0, le=1)
    by: ReadBy | None = None
    fresh: bool = False


@router.post("/v1/surveys")
async def surveys(
    body: SurveyRequest, request: Request, services: Using, caller: Asking
) -> Response:
    """Count the units of a corpus that say yes, or each label; or survey what they are about."""
    exchange = request.state.exchange = Exchange(caller=caller.name)
    services.catalogue.served(body.model, caller)
    exchange.corpus, exchange.question = body.model, body.question or ""
    given = body.model_dump(exclude={"model", "labels"})
    asked = NumbersAsked(labels=tuple(body.labels), **given)
    counting = partial(services.catalogue.numbers, body.model, caller, asked)

    async def counted() -> Response:
        async with services.admission.place(caller):
            found = await services.admission.take_steps(counting)
        return JSONResponse({"model": body.model, "kind": body.kind, **found.as_dict()})

    return await unless_gone(request, counted()) or Response(status_code=GONE)


@router.get("/v1/surveys")
async def plan(model: PublicText, services: Using, caller: Asking) -> dict[str, Any]:
    """How small a theme can be seen, how wide intervals will be, how long labels may be; free."""
    if services.catalogue.served(model, caller) is None:
        raise Refusal(400, "the public model reads no documents to count", param="model")
    config = services.catalogue.config(model)
    words = survey_plan(config, len(packaged_words()), VOTES)
    return {
        "smallest": words.least,
        "label_tokens": most_label_tokens(),
        "within": within(services.catalogue.count_plan(model).mechanism.noise),
        "epsilon": config.epsilon,
        "delta": config.delta,
        "rho": words.rho,
    }
