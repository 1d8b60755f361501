"""Policy and namespaces come from watches of a real connection: what an answer rests on, and what it never does."""

from __future__ import annotations

import asyncio
import json
import ssl
from contextlib import asynccontextmanager

import aiohttp
import pytest

from kube.config import Connection
from sandbox.apiserver import ApiServer
from webhook.run import running

POLICIES = "/apis/gpufence.io/v1alpha1/gpupolicies"
MERGE = {"Content-Type": "application/merge-patch+json"}


def policy(profile="baseline", name="default", **spec):
    return {
        "apiVersion": "gpufence.io/v1alpha1",
        "kind": "GpuPolicy",
        "metadata": {"name": name},
        "spec": {"profile": profile, **spec},
    }


class World:
    """A webhook that watches an API server, and people who change what it sees."""

    def __init__(self, api, server, session):
        self.api, self.server, self.session = api, server, session

    async def ask(self, method, path, body=None, headers=None):
        content = headers or {"Content-Type": "application/json"}
        data = None if body is None else json.dumps(body)
        async with self.session.request(method, self.api.url + path, data=data, headers=content) as answer:
            assert answer.status < 300, await answer.text()

    async def review(self, body, endpoint="mutate"):
        async with self.session.post(f"{self.server.url}/{endpoint}", json=body) as answer:
            assert answer.status == 200
            return (await answer.json())["response"]

    async def ready(self):
        async with self.session.get(f"{self.server.url}/readyz") as answer:
            return answer.status, await answer.text()

    async def until(self, condition):
        """Wait for something that a watch brings; the time limit of the test ends a wait in vain."""
        while not condition():  # noqa: ASYNC110 - there is no event to wait for: a condition is any of ours
            await asyncio.sleep(0.005)


@pytest.fixture
def world(settings, files):
    """Run it: `async with world(*objects) as world`, the objects being there from the start."""

    @asynccontextmanager
    async def run(*policies, wait=True, refuse=False, **overrides):
        trusting = ssl.create_default_context(cafile=str(files / "ca.crt"))
        connector = aiohttp.TCPConnector(ssl=trusting)
        async with (
            ApiServer(namespaces=("default", "vision")) as api,
            aiohttp.ClientSession(connector=connector) as session,
        ):
            for each in policies:
                async with session.post(api.url + POLICIES, json=each) as answer:
                    assert answer.status == 201, await answer.text()
            if refuse:
                api.refuse("not now")
            connection = Connection(server=api.url)
            async with running(settings(policy_file=None, **overrides), connection=connection) as server:
                if wait:
                    await server.known()
                yield World(api, server, session)

    return run


async def test_the_policy_named_default_is_in_force_and_no_other(world):
    async with world(policy("restricted"), policy("baseline", name="other")) as running_world:
        assert running_world.server.inputs.policy.profile == "restricted"
        await running_world.ask("PATCH", f"{POLICIES}/other", {"spec": {"enforcement": "audit"}}, MERGE)
        await running_world.ask("PATCH", f"{POLICIES}/default", {"spec": {"profile": "baseline"}}, MERGE)
        await running_world.until(lambda: running_world.server.inputs.policy.profile == "baseline")
        assert running_world.server.inputs.policy.enforce


async def test_without_an_object_the_built_in_policy_is_in_force(world):
    async with world() as running_world:
        assert running_world.server.inputs.policy.profile == "baseline"
        await running_world.ask("POST", POLICIES, policy("restricted"))
        await running_world.until(lambda: running_world.server.inputs.policy.profile == "restricted")
        await running_world.ask("DELETE", f"{POLICIES}/default")
        await running_world.until(lambda: running_world.server.inputs.policy.profile == "baseline")


async def test_a_bad_policy_leaves_the_last_good_one_in_force_until_it_is_mended(world, review):
    async with world(policy("restricted")) as running_world:
        inputs = running_world.server.inputs
        before = inputs.policy
        await running_world.ask("PATCH", f"{POLICIES}/default", {"spec": {"profile": "loose"}}, MERGE)
        await running_world.until(lambda: not inputs.sources.valid)
        assert inputs.policy is before
        assert (await running_world.ready())[0] == 200
        assert (await running_world.review(review()))["allowed"]
        await running_world.ask("PATCH", f"{POLICIES}/default", {"spec": {"profile": "baseline"}}, MERGE)
        await running_world.until(lambda: inputs.sources.valid)
        assert inputs.policy.profile == "baseline"


async def test_a_field_of_a_later_version_is_no_reason_to_refuse_a_policy(world):
    async with world(policy("restricted", later={"than": "this"})) as running_world:
        assert running_world.server.inputs.policy.profile == "restricted"


@pytest.mark.parametrize(("mode", "allowed"), [("allow", True), ("deny", False), ("audit", True)])
async def test_before_the_first_list_a_pod_is_answered_under_the_fail_mode(world, review, mode, allowed):
    async with world(wait=False, refuse=True, fail_mode=mode) as running_world:
        answer = await running_world.review(review())
        assert answer["allowed"] is allowed
        assert "no policy is in force: the namespaces have not been listed yet" in answer["warnings"][0]
        assert f"(failMode {mode})" in answer["warnings"][0]


async def test_it_is_ready_once_it_has_listed_both_and_stays_so_without_the_api_server(world):
    async with world(wait=False, refuse=True) as running_world:
        sources = running_world.server.inputs.sources
        await running_world.until(lambda: sources.policies.failures and sources.namespaces.failures)
        status, text = await running_world.ready()
        assert status == 503
        assert "not now" in text
        running_world.api.refuse("")
        await running_world.server.known()
        assert (await running_world.ready())[0] == 200
        running_world.api.refuse("not now")
        running_world.api.drop_watches()
        await running_world.until(lambda: sources.policies.trouble)
        assert (await running_world.ready())[0] == 200


async def test_with_a_bad_policy_and_none_before_it_is_not_ready_and_says_what_is_wrong(world, review):
    """A rollout stops at such a replica, and the ones before it keep the last good policy."""
    async with world(policy("loose"), wait=False, fail_mode="deny") as running_world:
        sources = running_world.server.inputs.sources
        await running_world.until(lambda: not sources.valid and sources.namespaces.synced)
        status, text = await running_world.ready()
        assert status == 503
        assert "spec.profile" in text
        mended = review(
            resource={"group": "gpufence.io", "version": "v1alpha1", "resource": "gpupolicies"},
            object=policy("baseline"),
            operation="UPDATE",
            namespace="",
        )
        assert (await running_world.review(mended, "validate"))["allowed"]
        assert not (await running_world.review(review()))["allowed"]
        await running_world.ask("PATCH", f"{POLICIES}/default", {"spec": {"profile": "baseline"}}, MERGE)
        await running_world.server.known()
        assert (await running_world.review(review()))["allowed"]


async def test_labels_of_a_namespace_count_as_soon_as_the_watch_tells_them(world, review):
    team = {"name": "t", "namespaceSelector": {"matchLabels": {"owner": "t"}}}
    async with world(policy(teams=[team])) as running_world:
        labels_of = running_world.server.inputs.labels_of
        assert "team" not in (await running_world.review(review())).get("auditAnnotations", {})
        await running_world.ask(
            "PATCH", "/api/v1/namespaces/vision", {"metadata": {"labels": {"owner": "t"}}}, MERGE
        )
        await running_world.until(lambda: labels_of("vision").get("owner"))
        assert (await running_world.review(review()))["auditAnnotations"]["team"] == "t"
        assert labels_of("vision")["kubernetes.io/metadata.name"] == "vision"
        assert "has not told of the namespace gone" in labels_of("gone").reason


async def test_a_namespace_that_is_being_deleted_is_known_as_such(world):
    async with world() as running_world:
        sources = running_world.server.inputs.sources
        assert sources.terminating("vision") is False
        await running_world.ask(
            "PATCH", "/api/v1/namespaces/vision", {"metadata": {"finalizers": ["a/b"]}}, MERGE
        )
        await running_world.ask("DELETE", "/api/v1/namespaces/vision")
        await running_world.until(lambda: sources.terminating("vision") is True)


async def test_no_request_asks_the_api_server_anything(world, review):
    async with world() as running_world:
        await running_world.until(lambda: running_world.api.requests == 4)  # two lists, two watches
        for _ in range(20):
            assert (await running_world.review(review()))["allowed"]
            assert not (await running_world.review(review(), "validate"))[
                "allowed"
            ]  # nobody has applied the patch
        assert running_world.api.requests == 4
