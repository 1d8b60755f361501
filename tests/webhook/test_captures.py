"""What a real API server (Kubernetes 1.21.3) sent is posted over TLS, and each patch is applied to its
object."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

CAPTURES = Path(__file__).parents[3] / "shared" / "captures"
FILES = ("admissionreviews-v1.21.jsonl", "admissionreview-ephemeralcontainers-v1.21.jsonl")


def captured():
    found = []
    for name in FILES:
        path = CAPTURES / name
        if not path.exists():
            reason = f"{path} is not there: the captures are kept outside of the repository"
            found.append(pytest.param(None, id=name, marks=pytest.mark.skip(reason=reason)))
            continue
        for index, line in enumerate(path.read_bytes().splitlines()):
            found.append(pytest.param(line, id=f"{name}:{index + 1}"))
    return found


async def post(client, endpoint, review):
    body = review if isinstance(review, bytes) else msgspec.json.encode(review)
    async with client.post(
        f"/{endpoint}", data=body, headers={"Content-Type": "application/json"}
    ) as response:
        assert response.status == 200
        answer = await response.json()
    uid = msgspec.json.decode(body)["request"]["uid"]
    assert answer["apiVersion"] == "admission.k8s.io/v1"
    assert answer["kind"] == "AdmissionReview"
    assert answer["response"]["uid"] == uid
    assert "fault" not in answer["response"].get("auditAnnotations", {})
    return answer["response"]


@pytest.mark.parametrize("line", captured())
async def test_a_captured_review_is_answered_and_its_patched_object_passes(webhook, patched, line):
    async with webhook(fail_mode="deny") as (_, client):
        review = msgspec.json.decode(line)
        first = await post(client, "mutate", line)
        if privileged(review["request"]["object"]):
            assert not first["allowed"]
            assert "GF201" in first["status"]["message"]
            return
        assert first["allowed"]
        review["request"]["object"] = final = patched(first, review["request"]["object"])
        assert "patch" not in await post(client, "mutate", review)
        second = await post(client, "validate", review)
        assert "patch" not in second
        assert second["allowed"] is not changes_team(review["request"])
        if "patch" in first and not review["request"].get("subResource"):
            assert "gpufence.io/decision" in final["metadata"]["annotations"]


def privileged(raw):
    """Whether it is the DaemonSet of the captures, which is privileged, with hostPID and /dev."""
    containers = raw.get("spec", {}).get("containers", [])
    return any(container.get("securityContext", {}).get("privileged") for container in containers)


def changes_team(request):
    """Whether it is the update of the captures that sets the label of another team."""
    if request["operation"] != "UPDATE":
        return False
    old, new = (request[key]["metadata"].get("labels", {}) for key in ("oldObject", "object"))
    return old.get("gpufence.io/team") != new.get("gpufence.io/team")
