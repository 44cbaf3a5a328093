"""What the OpenAPI document promises, by requests made from it."""

from __future__ import annotations

import pytest

from dpicl_rag.server.admission import ServerLimits
from tests.support.paced_model import PacedModel

FEW = 3
"""Requests of each operation; the others take time and are heavy."""


@pytest.fixture
def running(serve):
    return serve(model=PacedModel(open=True), limits=ServerLimits())


def test_the_document_is_open_and_names_no_corpus(running):
    document = running.client.get("/openapi.json")
    assert document.status_code == 200
    assert '"notes"' not in document.text
    for path in document.json()["paths"].values():
        for operation in path.values():
            content = operation["responses"]["default"].get("content", {})
            for form in content.values():
                assert form["schema"] == {"$ref": "#/components/schemas/Failure"}


@pytest.mark.heavy
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("examples", [FEW, pytest.param(12, marks=pytest.mark.heavy)])
def test_no_request_made_from_it_finds_a_5xx_or_an_answer_that_it_does_not_promise(
    running, examples
):
    import schemathesis
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st
    from schemathesis.specs.openapi import checks

    schema = schemathesis.openapi.from_dict(running.client.get("/openapi.json").json())
    # Wrong requests are also refused for their length, which no schema tells.
    rejection = schema.config.checks.negative_data_rejection
    rejection.expected_statuses = [*rejection.expected_statuses, "413"]
    looked_at = (
        schemathesis.checks.not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
        checks.response_headers_conformance,
        checks.negative_data_rejection,
        checks.unsupported_method,
    )
    modes = list(schemathesis.GenerationMode)  # requests as they should be, and as not
    tried = 0
    for found in schema.get_all_operations():
        operation = found.ok()

        @settings(
            max_examples=examples,
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=st.one_of(*(operation.as_strategy(mode) for mode in modes)))
        def check(case):
            nonlocal tried
            tried += 1
            response = case.call(base_url=running.url, headers=running.headers)
            case.validate_response(response, checks=looked_at)

        check()
    assert tried > 4 * examples
