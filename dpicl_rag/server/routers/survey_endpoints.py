"""Surveys: how many units of a corpus say something."""

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict

from dpicl_rag.answering.labels import most_label_tokens
from dpicl_rag.requests import Request as Asked
from dpicl_rag.server.delivery import GONE, unless_gone
from dpicl_rag.server.failures import Refusal
from dpicl_rag.server.request_fields import PublicText, remote_fields, with_fields
from dpicl_rag.server.request_log import Exchange
from dpicl_rag.server.services import Asking, Using
from dpicl_rag.surveys.survey_results import within

router = APIRouter()


class _Asked(BaseModel):
    """The body of ``/v1/surveys``. All of it is public."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: PublicText
    kind: Literal["count", "tally", "survey"]


if TYPE_CHECKING:
    SurveyRequest = _Asked
else:
    SurveyRequest = with_fields(
        "SurveyRequest", _Asked, "question", *remote_fields("count", "tally", "survey")
    )


@router.post("/v1/surveys")
async def surveys(
    body: SurveyRequest, request: Request, services: Using, caller: Asking
) -> Response:
    """Count the units of a corpus that say yes, or each label; or survey what they are about."""
    exchange = request.state.exchange = Exchange(caller=caller.name)
    services.catalogue.served(body.model, caller)
    given = body.model_dump(exclude={"model", "kind"})
    exchange.corpus, exchange.question = body.model, given["question"] or ""
    asked = Asked.of(body.kind, **given)
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
    survey = services.catalogue.plan(model, Asked.of("survey"))
    count = services.catalogue.plan(model, Asked.of("count"))
    return {
        "smallest": survey.mechanism.smallest(),
        "label_tokens": most_label_tokens(),
        "within": within(count.mechanism.noise),
        "epsilon": survey.epsilon,
        "delta": survey.delta,
        "rho": survey.rho,
    }
