"""`check --review`: exactly what the server would answer to a saved AdmissionReview."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cli.check.documents import documents
from cli.check.results import Problem
from cli.check.sources import read_text
from webhook.answer import Terms, answer_body
from webhook.reviews import NotAReviewError, encode
from webhook.settings import WebhookSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cli.check.judge import Asked


class AnswerBody(msgspec.Struct, frozen=True):
    """An answer as it goes over the wire."""

    body: bytes
    allowed: bool


def answers(name: str, asked: Asked) -> Iterator[AnswerBody | Problem]:
    """Yield the answer to every review in a file: one, or one per line or document.

    The endpoint is /mutate unless the question names another. Where no decision can be made, the answer is
    that of a webhook with default settings.
    """
    text = read_text(name)
    if isinstance(text, Problem):
        yield text
        return
    for document in documents(name, text, json_lines=name.endswith(".jsonl")):
        if isinstance(document, Problem):
            yield document
            continue
        try:
            yield _answer(msgspec.json.encode(document.value), asked)
        except NotAReviewError as error:
            yield Problem(name, document.index, str(error), "Save the request as the API server sent it.")


def _answer(body: bytes, asked: Asked) -> AnswerBody:
    terms = Terms(asked.policy, asked.labels_of, asked.now, WebhookSettings().fail_mode)
    response = answer_body(body, asked.endpoint or "mutate", terms).response
    return AnswerBody(encode(response), response.allowed)
