"""Follow-ups that are put as whole questions, between the page and a server that does not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def put_as(page: Any, whole: Mapping[str, str]) -> None:
    """Name the whole question in the first event of an answer to a follow-up.

    Args:
        page: Playwright's.
        whole: By what is typed: the question as it is put.
    """

    def answer(route: Any) -> None:
        messages = route.request.post_data_json["messages"]
        typed = messages[-1]["content"]
        if len(messages) == 1 or typed not in whole:
            route.continue_()
            return
        given = route.fetch()
        head = f'{{"question": {json.dumps(whole[typed])}, '
        route.fulfill(response=given, body=given.text().replace("{", head, 1))

    page.route("**/v1/chat/completions", answer)
