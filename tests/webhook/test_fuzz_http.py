"""The real endpoint under thousands of wrong requests, and the judge of the answers under wrong answers.

The same generator runs 100,000 requests long in `make soak`.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import logging
import random
import ssl
from contextlib import asynccontextmanager

import pytest
import structlog
from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage

from serve.logs import configure
from soak.__main__ import complaints_in, loaded, saved
from soak.client import Poster, Target, exchange
from soak.hunt import BATCH, batch, cases, problem_of, smallest
from soak.judge import (
    NotHttpError,
    Response,
    Seen,
    problem_of_answer,
    problem_of_review,
    problem_of_wire,
    responses,
)
from soak.reviews import ReviewCase, good_review, paths, review_case, without
from soak.server import memory_kib, prepare
from soak.server import webhook as started
from soak.wire import WireCase, request, wire_case
from webhook.run import running

LIMIT = 10 << 20
GOOD = ReviewCase("mutate", json.dumps(good_review()).encode())


@pytest.fixture
def _restored():
    """Put the set-up of the logs back, which is one for the process."""
    handlers = logging.getLogger().handlers[:]
    yield
    structlog.reset_defaults()
    logging.getLogger().handlers[:] = handlers


@pytest.fixture
def target(settings, files):
    """Run a webhook: `async with target() as where`. A body that does not come costs half a second."""

    @asynccontextmanager
    async def run(**overrides):
        async with running(settings(request_timeout_seconds=0.5, **overrides)) as server:
            trusting = ssl.create_default_context(cafile=str(files / "ca.crt"))
            yield Target(server.address.host, server.address.port, trusting)

    return run


async def first_failure(where, seed, count):
    stream = cases(random.Random(seed))
    for size in [BATCH] * (count // BATCH):
        if failure := await batch(where, list(itertools.islice(stream, size)), LIMIT):
            return failure
    return None


# The endpoint


@pytest.mark.usefixtures("_restored")
@pytest.mark.parametrize(("seed", "fail_mode"), [(1, "allow"), (2, "deny")])
async def test_whatever_a_client_sends_is_answered_rightly_and_a_good_review_after_it(
    target, capsys, seed, fail_mode
):
    strays = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: strays.append(context["message"]))
    configure("info", "json")
    async with target(fail_mode=fail_mode) as where:
        assert await first_failure(where, seed, 3000) is None
    assert strays == []
    assert complaints_in(capsys.readouterr().err) == []


async def test_connections_that_say_half_and_no_more_keep_nobody_waiting(target):
    parts = (b"", b"POST /mut", request(b"", length=b"5")[:-10], request(b"{", length=b"100"))
    async with target() as where:
        idle = [await asyncio.open_connection(where.host, where.port, ssl=where.tls) for _ in range(100)]
        raw = [await asyncio.open_connection(where.host, where.port) for _ in range(100)]
        for number, (_, writer) in enumerate(idle):
            writer.write(parts[number % len(parts)])
        assert await problem_of(where, GOOD, LIMIT) is None
        for _, writer in [*idle, *raw]:
            writer.transport.abort()


async def test_many_pipelined_requests_are_answered_in_their_order(target):
    uids = tuple(f"u{number}" for number in range(150))
    data = b"".join(request(json.dumps(good_review(uid)).encode()) for uid in uids)
    async with target() as where:
        seen = await exchange(where, WireCase("", (data,), frozenset(), len(uids), uids=uids))
    assert [json.loads(each.body)["response"]["uid"] for each in responses(seen.data)[0]] == list(uids)


async def test_an_old_object_of_a_wrong_type_is_a_malformed_pod_and_no_error_of_ours(target):
    review = good_review()
    review["request"] |= {"operation": "UPDATE", "subResource": "ephemeralcontainers", "oldObject": 7}
    async with target() as where:
        case, poster = ReviewCase("mutate", json.dumps(review).encode()), Poster(where)
        response = await poster.post(case)
        poster.close()
    assert problem_of_review(case, response, LIMIT) is None
    answer = json.loads(response.body)
    assert answer["response"]["auditAnnotations"]["fault"].startswith("the pod is malformed")


@pytest.mark.usefixtures("_restored")
def test_broken_http_is_logged_as_a_warning_and_without_what_was_sent(capsys):
    configure("info", "json")
    log = logging.getLogger("aiohttp.server")
    log.error("Error handling request", exc_info=BadHttpMessage("hunter2"))
    log.error("Error handling request", exc_info=KeyError("hunter2"))
    lines = capsys.readouterr().err.splitlines()
    assert [json.loads(line)["level"] for line in lines] == ["warning", "error"]
    assert "hunter2" not in "".join(lines)


# The generator


@pytest.mark.parametrize("case", [review_case, wire_case])
def test_a_seed_gives_the_same_requests_again(case):
    first, second = random.Random(5), random.Random(5)
    assert [case(first) for _ in range(200)] == [case(second) for _ in range(200)]


def test_the_bodies_are_of_all_three_kinds():
    rng = random.Random(3)
    bodies = [review_case(rng).body for _ in range(500)]
    assert max(map(len, bodies)) > 20_000
    kinds = [problem_of_review(ReviewCase("mutate", body), Response(400, b""), LIMIT) for body in bodies]
    assert 20 < kinds.count(None) < 250  # the rest are reviews, to which 400 would be wrong


# The judge


def answer(**fields):
    response = {"uid": "u", "allowed": True, **fields}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def patch(*operations):
    return base64.b64encode(json.dumps(operations).encode()).decode()


ADD = {"op": "add", "path": "/a", "value": 1}
REQUEST = {"uid": "u", "object": {"b": 1}}


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ([], "no JSON object"),
        ({"kind": "AdmissionReview"}, "no JSON object"),
        ({**answer(), "apiVersion": "admission.k8s.io/v1beta1"}, "apiVersion"),
        ({**answer(), "kind": "Review"}, "kind"),
        (answer(uid="v"), "uid"),
        (answer(allowed="yes"), "boolean"),
        (answer(allowed=False), "without a status"),
        (answer(allowed=False, status={"message": "", "code": 403}), "code or message"),
        (answer(patch=patch(ADD)), "not together"),
        (answer(patchType="JSONPatch"), "not together"),
        (answer(patch=patch(ADD), patchType="MergePatch"), "patchType"),
        (answer(patch=patch(), patchType="JSONPatch"), "empty"),
        (answer(patch="%", patchType="JSONPatch"), "does not apply"),
        (answer(patch=patch({"op": "remove", "path": "/gone"}), patchType="JSONPatch"), "does not apply"),
        (answer(auditAnnotations={"a/b": "c"}), "annotation"),
        (answer(warnings=["two\nlines"]), "warning"),
        (answer(auditAnnotations={"fault": "internal error: KeyError"}), "internal error"),
    ],
)
def test_an_answer_that_the_api_server_would_not_take_is_a_problem(wrong, problem):
    assert problem in problem_of_answer(json.dumps(wrong).encode(), "mutate", REQUEST)


def test_a_right_answer_is_none_and_a_patch_from_validate_is_one():
    right = json.dumps(answer(patch=patch(ADD), patchType="JSONPatch")).encode()
    assert problem_of_answer(right, "mutate", REQUEST) is None
    assert "/validate" in problem_of_answer(right, "validate", REQUEST)


@pytest.mark.parametrize(
    ("case", "status"),
    [
        (GOOD, 500),
        (GOOD, 400),
        (GOOD, 413),
        (GOOD._replace(body=b"{}"), 200),
        (GOOD._replace(body=b"x" * (LIMIT + 1)), 400),
    ],
)
def test_a_status_that_does_not_fit_what_was_sent_is_a_problem(case, status):
    assert problem_of_review(case, Response(status, b""), LIMIT) is not None


@pytest.mark.parametrize(
    "seen",
    [
        Seen(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"),
        Seen(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        Seen(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 5\r\n\r\nhalf"),
        Seen(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n" * 3),
        Seen(b"no HTTP\r\n\r\n"),
        Seen(b"", stalled=True),
    ],
)
def test_what_should_not_come_back_on_a_broken_connection_is_a_problem(seen):
    assert problem_of_wire(WireCase("", (b"x",), answers=2), seen) is not None


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"])
def test_a_broken_request_gets_400_or_its_connection_is_closed(data):
    assert problem_of_wire(WireCase("", (b"x",)), Seen(data)) is None


def test_answers_are_read_one_after_the_other_and_interim_ones_are_not_answers():
    data = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 400 X\r\n"
    assert responses(data) == ([Response(200, b"a")], b"HTTP/1.1 400 X\r\n")
    with pytest.raises(NotHttpError):
        responses(b"\x15\x03\r\n\r\n")


# The hunt


async def test_a_planted_bug_is_found_and_made_small(target, monkeypatch):
    def brittle(body, *_):
        if b'"hostPID"' in body:
            raise ZeroDivisionError
        raise web.HTTPBadRequest

    monkeypatch.setattr("webhook.app.answer_body", brittle)
    review = good_review()
    review["request"]["object"]["spec"]["hostPID"] = True
    async with target() as where:
        case = ReviewCase("mutate", json.dumps(review).encode())
        failure = await batch(where, [case] * 3, LIMIT)

        async def fails(candidate):
            return await problem_of(where, candidate, LIMIT) == failure.problem

        small = await smallest(case, fails)
    assert failure.problem == "status 500"
    assert small.body == b'"hostPID"'


async def test_a_webhook_that_no_longer_answers_is_a_failure_of_the_batch(settings, files):
    async with running(settings()) as server:
        trusting = ssl.create_default_context(cafile=str(files / "ca.crt"))
        where = Target(server.address.host, server.address.port, trusting)
    failure = await batch(where, [], LIMIT)
    assert failure.case is None
    assert "good review" in failure.problem


def test_a_case_comes_back_from_its_file():
    rng = random.Random(1)
    for case in [GOOD, *(wire_case(rng) for _ in range(50))]:
        assert loaded(saved(case)) == case


def test_every_node_has_a_path_and_can_be_left_out():
    value = {"a": [1, {"b": 2}]}
    assert set(paths(value)) == {(), ("a",), ("a", 0), ("a", 1), ("a", 1, "b")}
    assert without(value, ("a", 0)) == {"a": [{"b": 2}]}


def test_the_log_of_a_soak_complains_about_errors_and_about_what_is_no_log_line():
    lines = ['{"level": "info"}', '{"level": "warning"}', '{"level": "error"}', "Fatal Python error", "7"]
    assert complaints_in("\n".join(lines)) == lines[2:]


async def test_the_process_of_the_soak_answers_and_says_what_memory_it_takes(tmp_path):
    with started(prepare(tmp_path, {"logLevel": "error"}), tmp_path / "log") as process:
        trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        assert await problem_of(Target(process.host, process.port, trusting), GOOD, LIMIT) is None
        resident, proportional = memory_kib(process.pid)
    assert resident >= proportional > 10_000
