"""Whatever bytes are posted, the answer is valid HTTP; whatever a review holds, the answer is a valid
review."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import threading

import aiohttp
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policy.unreadable import Unreadable
from webhook.answer import Terms, answer_body
from webhook.reviews import NotAReviewError, encode
from webhook.run import running

SMALL = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
KEYS = st.sampled_from(
    [
        *(
            "metadata",
            "spec",
            "containers",
            "initContainers",
            "ephemeralContainers",
            "env",
            "envFrom",
            "name",
        ),
        *(
            "value",
            "valueFrom",
            "resources",
            "limits",
            "requests",
            "nvidia.com/gpu",
            "volumes",
            "hostPath",
            "path",
        ),
        *("labels", "annotations", "ownerReferences", "controller", "securityContext", "capabilities", "add"),
        *("volumeMounts", "mountPath", "privileged", "hostPID", "gpufence.io/team", "NVIDIA_VISIBLE_DEVICES"),
    ]
)
VALUES = st.recursive(
    SCALARS | KEYS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=20,
)
CONTAINERS = st.lists(st.dictionaries(KEYS, VALUES, max_size=5) | VALUES, max_size=3)
PODS = VALUES | st.fixed_dictionaries(
    {
        "metadata": VALUES,
        "spec": st.fixed_dictionaries({"containers": CONTAINERS}, optional={"volumes": VALUES}),
    }
)
REQUESTS = st.fixed_dictionaries(
    {"object": PODS},
    optional={
        "oldObject": PODS,
        "operation": st.sampled_from(["CREATE", "UPDATE", "DELETE", 5, None]),
        "subResource": st.sampled_from(["", "ephemeralcontainers", "status", None, []]),
        "namespace": VALUES,
        "userInfo": VALUES,
        "dryRun": VALUES,
        "name": VALUES,
        "resource": VALUES,
    },
)


def review_of(request):
    fields = {
        "uid": "u",
        "operation": "CREATE",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        **request,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": fields}


def check(raw, uid, endpoint):
    """Hold an answer to the API server's own checks."""
    assert raw["apiVersion"] == "admission.k8s.io/v1"
    assert raw["kind"] == "AdmissionReview"
    response = raw["response"]
    assert response["uid"] == uid
    assert type(response["allowed"]) is bool
    assert ("patch" in response) == ("patchType" in response)
    if "patch" in response:
        assert endpoint == "mutate"
        assert response["allowed"]
        assert response["patchType"] == "JSONPatch"
        assert json.loads(base64.b64decode(response["patch"], validate=True))
    if not response["allowed"]:
        assert response["status"]["code"] >= 400
        assert response["status"]["message"]
    assert not [key for key in response.get("auditAnnotations", {}) if "/" in key]


def decodes(body):
    try:
        msgspec.json.decode(body)
    except msgspec.DecodeError:
        return False
    return True


@SMALL
@given(
    request_=REQUESTS,
    endpoint=st.sampled_from(["mutate", "validate"]),
    mode=st.sampled_from(["allow", "deny"]),
)
def test_any_review_gets_a_valid_answer_and_no_internal_error(policy, now, request_, endpoint, mode):
    body = json.dumps(review_of(request_)).encode()
    try:
        terms = Terms(policy, lambda _: Unreadable("none"), now, mode)
        raw = json.loads(encode(answer_body(body, endpoint, terms).response))
    except NotAReviewError:
        assert not decodes(body)  # an integer of hundreds of digits, or half of a surrogate pair
        return
    check(raw, "u", endpoint)
    assert "internal error" not in raw["response"].get("auditAnnotations", {}).get("fault", "")


@SMALL
@given(
    body=st.binary(max_size=200)
    | st.text().map(str.encode)
    | VALUES.map(lambda value: json.dumps(value).encode())
)
def test_any_bytes_are_answered_or_refused_as_no_review(policy, now, body):
    with pytest.raises(NotAReviewError):
        answer_body(body, "mutate", Terms(policy, lambda _: {}, now, "allow"))


class Background:
    """One webhook for all examples, in a thread of its own: hypothesis calls plain functions."""

    def __init__(self, config, ca):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.ca = ca
        self.context = running(config)
        self.server = self.do(self.context.__aenter__())
        self.client = self.do(self._client())

    async def _client(self):
        trusting = ssl.create_default_context(cafile=self.ca)
        return aiohttp.ClientSession(self.server.url, connector=aiohttp.TCPConnector(ssl=trusting))

    def do(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def close(self):
        self.do(self.client.close())
        self.do(self.context.__aexit__(None, None, None))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def post(self, path, body):
        async def send():
            headers = {"Content-Type": "application/json"}
            async with self.client.post(path, data=body, headers=headers) as response:
                return response.status, await response.read()

        return self.do(send())

    def send_raw(self, data):
        """Send bytes on a connection of their own; return what came back until the server closed."""

        async def send():
            trusting = ssl.create_default_context(cafile=self.ca)
            address = self.server.address
            reader, writer = await asyncio.open_connection(address.host, address.port, ssl=trusting)
            writer.write(data)
            await writer.drain()
            answer = await reader.read()
            writer.close()
            return answer

        return self.do(send())


@pytest.fixture
def background(request):
    make, files = request.getfixturevalue("settings"), request.getfixturevalue("files")
    server = Background(make(), str(files / "ca.crt"))
    yield server
    server.close()


@settings(SMALL, max_examples=60)
@given(body=st.binary(max_size=300) | REQUESTS.map(lambda request_: json.dumps(review_of(request_)).encode()))
def test_any_body_over_tls_gets_400_or_a_review(background, body):
    status, answer = background.post("/mutate", body)
    assert status in {200, 400}
    if status == 200:
        check(json.loads(answer), "u", "mutate")


@settings(SMALL, max_examples=30)
@given(junk=st.binary(max_size=60))
def test_broken_http_closes_that_connection_and_no_other(background, junk):
    head = (
        b"POST /mutate HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n"
        + junk
        + b"\r\n\r\n{}"
    )
    answer = background.send_raw(head + b"x\r\n\r\n")
    assert answer == b"" or answer.startswith(b"HTTP/1.")
    assert background.post("/mutate", b"{}")[0] == 400
