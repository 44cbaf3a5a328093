"""A served corpus through the `openai` package, piece by piece.

``python -m demos.clients.openai_client http://127.0.0.1:8321/v1 mail "When does it open?"``; the
key is in OPENAI_API_KEY.
"""

from __future__ import annotations

import os
import sys

from openai import OpenAI


def main(url: str, corpus: str, question: str) -> None:
    """Print an answer as it comes, and what it cost."""
    with OpenAI(base_url=url, api_key=os.environ.get("OPENAI_API_KEY", "none")) as client:
        stream = client.chat.completions.create(
            model=corpus, messages=[{"role": "user", "content": question}], stream=True
        )
        for event in stream:
            print(event.choices[0].delta.content or "", end="", flush=True)
            if event.choices[0].finish_reason:
                print()
                print(event.model_extra["privacy"])


if __name__ == "__main__":
    main(*sys.argv[1:])
