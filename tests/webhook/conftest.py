"""A policy, reviews, and a webhook that really listens over TLS on the loopback interface."""

from __future__ import annotations

import base64
import copy
import ssl
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import aiohttp
import jsonpatch
import msgspec
import pytest

from certs.authority import ServingNames, issue_serving, new_authority
from certs.store import write
from policy.load import load_policy
from policy.unreadable import Unreadable
from serve.settings import Address
from webhook.answer import Terms, answer_body
from webhook.run import running
from webhook.settings import WebhookSettings

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
POLICY = {
    "apiVersion": "gpufence.io/v1alpha1",
    "kind": "GpuPolicy",
    "metadata": {"name": "default"},
    "spec": {
        "profile": "baseline",
        "teams": [{"name": "vision", "namespaces": ["vision", "vision-*"]}],
    },
}


@pytest.fixture(scope="session")
def policy():
    return load_policy(POLICY).policy


@pytest.fixture
def pod():
    """Return a pod with one container that has no request and no variable."""

    def make(**container):
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "vision"},
            "spec": {"containers": [{"name": "main", "image": "i", **container}]},
        }

    return make


@pytest.fixture
def review(pod):
    """Return an AdmissionReview as a dict; keyword arguments are fields of the request."""

    def make(**request):
        resource = {"group": "", "version": "v1", "resource": "pods"}
        fields = {
            "uid": "11111111-2222-3333-4444-555555555555",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": resource,
            "requestResource": resource,
            "name": "p",
            "namespace": "vision",
            "operation": "CREATE",
            "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
            "object": pod(),
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
            **request,
        }
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": fields}

    return make


@pytest.fixture
def answered(policy):
    """Answer a review (a dict, or bytes) in memory, and return the response as the API server reads it."""

    def call(
        body,
        endpoint="mutate",
        *,
        policy=policy,
        labels_of=lambda _: Unreadable("the test gave none"),
        now=NOW,
        fail_mode="allow",
    ):
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        found = answer_body(raw, endpoint, Terms(policy, labels_of, now, fail_mode))
        return msgspec.to_builtins(found.response)

    return call


@pytest.fixture(scope="session")
def patched():
    """Apply the patch of a response to an object, with an implementation that is not ours."""

    def apply(response, raw):
        if "patch" not in response:
            return raw
        operations = msgspec.json.decode(base64.b64decode(response["patch"], validate=True))
        return jsonpatch.apply_patch(copy.deepcopy(raw), operations)

    return apply


@pytest.fixture
def files(tmp_path):
    """Write certificates for 127.0.0.1 and the policy; return their directory."""
    now = datetime.now(UTC)  # TLS looks at the real clock
    authority = new_authority("test CA", now)
    leaf = issue_serving(authority, ServingNames(("localhost",), ("127.0.0.1",)), now)
    write(tmp_path, authority, leaf, keep_ca_key=False, replace_ca=False)
    (tmp_path / "policy.yaml").write_bytes(msgspec.json.encode(POLICY))  # JSON is YAML
    return tmp_path


@pytest.fixture
def settings(files):
    """Return settings for the files, with overrides."""

    def make(**overrides):
        values = {
            "listen": Address("127.0.0.1", 0),
            "certificates": files,
            "policy_file": files / "policy.yaml",
            **overrides,
        }
        return WebhookSettings(**values)

    return make


@pytest.fixture
def webhook(settings, files):
    """Run a webhook and a client that trusts its authority: `async with webhook() as (server, client)`."""

    @asynccontextmanager
    async def run(**overrides):
        async with running(settings(**overrides)) as server:
            trusting = ssl.create_default_context(cafile=str(files / "ca.crt"))
            connector = aiohttp.TCPConnector(ssl=trusting)
            async with aiohttp.ClientSession(server.url, connector=connector) as client:
                yield server, client

    return run


@pytest.fixture(scope="session")
def now():
    return NOW


@pytest.fixture
def outcome(policy):
    """Answer a review (a dict, or bytes) in memory, and return the answer with how it came about."""

    def call(body, endpoint="mutate", *, policy=policy, fail_mode="allow"):
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return answer_body(raw, endpoint, Terms(policy, lambda _: Unreadable("none given"), NOW, fail_mode))

    return call
