"""Who asks, discovery, reviews, and the faults that a test can order."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from sandbox.apiserver import ApiServer
from sandbox.apiserver.headers import warning_headers


@pytest.mark.parametrize(
    ("headers", "user"),
    [
        ({}, {"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]}),
        (
            {"Authorization": "Bearer alice-token"},
            {"username": "alice", "uid": "u-1", "groups": ["speech", "system:authenticated"]},
        ),
        (
            {"Impersonate-User": "bob", "Impersonate-Group": "vision", "Impersonate-Uid": "u-2"},
            {"username": "bob", "uid": "u-2", "groups": ["vision", "system:authenticated"]},
        ),
    ],
)
async def test_webhooks_are_told_who_asks(
    *, client: Any, kit: Any, api: Any, hook: Any, headers: dict[str, str], user: dict[str, Any]
) -> None:
    await hook("mutating")
    await client.ask("POST", "pods", kit.pod(), headers)
    assert api.calls[0].request["userInfo"] == user


async def test_an_unknown_token_is_a_401(client: Any) -> None:
    code, status, _ = await client.ask("GET", "pods", None, {"Authorization": "Bearer forged"})
    assert (code, status["reason"]) == (401, "Unauthorized")


async def test_token_reviews_know_the_tokens_and_pass_no_webhook(client: Any, api: Any, hook: Any) -> None:
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    await hook("validating", rules=[rule])
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    known = (await client.post(path, {"kind": "TokenReview", "spec": {"token": "alice-token"}})).body
    assert known["status"]["authenticated"] is True
    assert known["status"]["user"]["username"] == "alice"
    other = (await client.post(path, {"kind": "TokenReview", "spec": {"token": "forged"}})).body
    assert other["status"] == {"authenticated": False}
    assert (await client.get(path)).code == 405
    assert api.calls == []


async def test_access_reviews_are_answered_by_a_given_function() -> None:
    def review(posted: Any) -> Any:
        return {"allowed": posted["spec"]["user"] == "alice"}

    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    async with ApiServer(review=review) as api, aiohttp.ClientSession() as session:
        for user, allowed in (("alice", True), ("bob", False)):
            async with session.post(api.url + path, json={"spec": {"user": user}}) as answer:
                assert (answer.status, (await answer.json())["status"]) == (201, {"allowed": allowed})


async def test_discovery_names_every_group_and_resource(client: Any) -> None:
    assert (await client.get("/version")).body["gitVersion"].startswith("v1.")
    assert (await client.get("/api")).body["versions"] == ["v1"]
    groups = {group["name"] for group in (await client.get("/apis")).body["groups"]}
    assert {"apps", "batch", "gpufence.io", "admissionregistration.k8s.io"} <= groups
    resources = {each["name"]: each for each in (await client.get("/api/v1")).body["resources"]}
    assert resources["pods"]["shortNames"] == ["po"]
    assert resources["pods/ephemeralcontainers"]["kind"] == "Pod"
    group = (await client.get("/apis/gpufence.io")).body
    assert group["preferredVersion"]["groupVersion"] == "gpufence.io/v1alpha1"


@pytest.mark.parametrize(
    "path", ["/openapi/v2", "/openapi/v3/apis/none.io/v1", "/apis/none.io/v1", "/metrics", "/api/v2/pods"]
)
async def test_what_is_not_served_is_a_404(client: Any, path: str) -> None:
    assert (await client.get(path)).code == 404


async def test_it_is_healthy(client: Any, api: Any) -> None:
    async with client.session.get(f"{api.url}/readyz") as answer:
        assert (answer.status, await answer.text()) == (200, "ok")


async def test_a_refusing_server_answers_503_until_it_does_not(client: Any, api: Any) -> None:
    api.refuse("etcd is away")
    code, status, _ = await client.get("pods")
    assert (code, status["reason"], status["message"]) == (503, "ServiceUnavailable", "etcd is away")
    api.refuse("")
    assert (await client.get("pods")).code == 200


def test_a_server_that_was_not_started_has_no_url() -> None:
    with pytest.raises(RuntimeError, match="not been started"):
        _ = ApiServer().url


def test_long_warnings_are_cut_and_the_last_are_dropped() -> None:
    headers = warning_headers([f"{number:02}" + "x" * 298 for number in range(20)])
    assert len(headers) == 16
    assert all(len(header) == 256 + len('299 - ""') for header in headers)


def test_a_single_long_warning_below_the_total_is_whole() -> None:
    assert warning_headers(["x" * 300]) == ['299 - "' + "x" * 300 + '"']
