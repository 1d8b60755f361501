"""What is filled in, and what is refused with a 422."""

from __future__ import annotations

from typing import Any

import pytest

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
GPU = "nvidia.com/gpu"


async def test_a_bare_pod_is_filled_in_as_kube_apiserver_does(client: Any, kit: Any) -> None:
    spec = (await client.post("pods", kit.pod())).body["spec"]
    (volume,) = spec.pop("volumes")
    assert volume["name"].startswith("kube-api-access-")
    assert spec == {
        "containers": [
            {
                "name": "main",
                "image": "busybox:1",
                "resources": {},
                "volumeMounts": [{"name": volume["name"], "readOnly": True, "mountPath": ACCOUNT}],
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
        ],
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "enableServiceLinks": True,
    }


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("busybox:1", "IfNotPresent"),
        ("host:5000/busybox", "Always"),
        ("busybox@sha256:0", "IfNotPresent"),
    ],
)
async def test_the_pull_policy_follows_the_tag(client: Any, kit: Any, image: str, policy: str) -> None:
    pod = kit.pod(containers=[{"name": "c", "image": image}])
    created = (await client.post("pods", pod)).body
    assert created["spec"]["containers"][0]["imagePullPolicy"] == policy


async def test_limits_become_requests_where_there_are_none(client: Any, kit: Any) -> None:
    resources = {"limits": {GPU: "1", "cpu": "2"}, "requests": {"cpu": "500m"}}
    container = {"name": "c", "image": "x", "resources": resources}
    pod = kit.pod(containers=[container], initContainers=[{**container, "name": "i"}])
    spec = (await client.post("pods", pod)).body["spec"]
    for kind in ("containers", "initContainers"):
        assert spec[kind][0]["resources"]["requests"] == {GPU: "1", "cpu": "500m"}


async def test_a_pod_can_do_without_the_token_and_bring_tolerations(client: Any, kit: Any) -> None:
    pod = kit.pod(
        automountServiceAccountToken=False, tolerations=[{"operator": "Exists"}], serviceAccountName="s"
    )
    spec = (await client.post("pods", pod)).body["spec"]
    assert "volumes" not in spec
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["serviceAccount"] == "s"


async def test_nulls_mean_absent(client: Any, kit: Any) -> None:
    pod = kit.pod(volumes=None, containers=[{"name": "c", "image": "x", "resources": None, "env": None}])
    pod["metadata"]["labels"] = None
    created = (await client.post("pods", pod)).body
    assert "labels" not in created["metadata"]
    assert created["spec"]["containers"][0]["resources"] == {}


def _with(**container: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "x", **container}]}


def _resources(limits: Any, requests: Any) -> dict[str, Any]:
    return _with(resources={"limits": limits, "requests": requests})


FIRST = "spec.containers[0]"
INVALID: list[tuple[dict[str, Any], str, str, str]] = [
    ({"containers": []}, "spec.containers", "FieldValueRequired", "Required value"),
    (_with(name="Main"), f"{FIRST}.name", "FieldValueInvalid", "a lowercase RFC 1123 label"),
    (_with(image=""), f"{FIRST}.image", "FieldValueRequired", "Required value"),
    (
        {"containers": [{"name": "c", "image": "x"}], "initContainers": [{"name": "c", "image": "x"}]},
        f"{FIRST}.name",
        "FieldValueDuplicate",
        'Duplicate value: "c"',
    ),
    (
        _resources({GPU: "500m"}, {}),
        f"{FIRST}.resources.limits[{GPU}]",
        "FieldValueInvalid",
        "must be an integer",
    ),
    (
        _resources({}, {GPU: "1"}),
        f"{FIRST}.resources.limits",
        "FieldValueRequired",
        "Limit must be set for non overcommitable resources",
    ),
    (
        _resources({GPU: "2"}, {GPU: "1"}),
        f"{FIRST}.resources.requests",
        "FieldValueInvalid",
        f'Invalid value: "1": must be equal to {GPU} limit of 2',
    ),
    (
        _resources({"cpu": "1"}, {"cpu": "2"}),
        f"{FIRST}.resources.requests",
        "FieldValueInvalid",
        "less than or equal",
    ),
    (
        _resources({"cpu": "x"}, {}),
        f"{FIRST}.resources.limits[cpu]",
        "FieldValueInvalid",
        "quantities must match",
    ),
    (
        _resources({"cpu": "-1"}, {}),
        f"{FIRST}.resources.limits[cpu]",
        "FieldValueInvalid",
        "greater than or equal",
    ),
    (
        _with(env=[{"name": "A", "value": "1", "valueFrom": {"fieldRef": {}}}]),
        f"{FIRST}.env[0].valueFrom",
        "FieldValueInvalid",
        "may not be specified when `value` is not empty",
    ),
    (_with(env=[{"value": "1"}]), f"{FIRST}.env[0].name", "FieldValueRequired", "Required value"),
    (_with(env=[{"name": "A=B"}]), f"{FIRST}.env[0].name", "FieldValueInvalid", "printable ASCII"),
    (
        {**_with(), "ephemeralContainers": [{"name": "d", "image": "x"}]},
        "spec.ephemeralContainers",
        "FieldValueForbidden",
        "Forbidden: cannot be set on create",
    ),
]


@pytest.mark.parametrize(("spec", "field", "reason", "text"), INVALID)
async def test_an_invalid_pod_is_a_422_that_names_the_field(
    *, client: Any, kit: Any, spec: dict[str, Any], field: str, reason: str, text: str
) -> None:
    code, status, _ = await client.post("pods", kit.pod(**spec))
    assert (code, status["reason"], status["details"]["kind"]) == (422, "Invalid", "Pod")
    found = {(cause["field"], cause["reason"]): cause["message"] for cause in status["details"]["causes"]}
    assert text in found[field, reason]
    assert status["message"].startswith('Pod "p" is invalid: ')


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"name": "Upper"}, "metadata.name"),
        ({"name": "x" * 254}, "metadata.name"),
        ({"name": ""}, "metadata.name"),
        ({"labels": {"a": "x" * 64}}, "metadata.labels"),
        ({"labels": {"a": "not ok"}}, "metadata.labels"),
        ({"labels": {"a": 1}}, "metadata.labels"),
        ({"labels": {"UPPER.io/a": "1"}}, "metadata.labels"),
        ({"labels": {"a.io/": "1"}}, "metadata.labels"),
        ({"labels": {"x" * 64: "1"}}, "metadata.labels"),
        ({"annotations": {"not ok": "1"}}, "metadata.annotations"),
        ({"annotations": {"a": "x" * (256 * 1024)}}, "metadata.annotations"),
    ],
)
async def test_invalid_metadata_is_a_422(client: Any, kit: Any, metadata: dict[str, Any], field: str) -> None:
    pod = kit.pod()
    pod["metadata"] |= metadata
    code, status, _ = await client.post("pods", pod)
    assert (code, [cause["field"] for cause in status["details"]["causes"]]) == (422, [field])


async def test_several_causes_are_listed_in_brackets(client: Any, kit: Any) -> None:
    status = (await client.post("pods", kit.pod("Upper", containers=[]))).body
    assert status["message"].startswith('Pod "Upper" is invalid: [metadata.name: Invalid value: "Upper": ')
    assert status["message"].endswith("spec.containers: Required value]")


async def test_of_a_pod_only_images_and_a_few_fields_may_change(client: Any, kit: Any) -> None:
    await client.post("pods", kit.pod())
    fine = [
        {"op": "replace", "path": "/spec/containers/0/image", "value": "busybox:2"},
        {"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 5},
        {"op": "add", "path": "/spec/tolerations/-", "value": {"key": "a", "operator": "Exists"}},
    ]
    assert (await client.patch("pods/p", fine, "json")).code == 200
    env = [{"op": "add", "path": "/spec/containers/0/env", "value": [{"name": "A", "value": "1"}]}]
    code, status, _ = await client.patch("pods/p", env, "json")
    assert code == 422
    assert "pod updates may not change fields other than `spec.containers[*].image`" in status["message"]
    less = [{"op": "remove", "path": "/spec/tolerations/0"}]
    assert (await client.patch("pods/p", less, "json")).code == 422


@pytest.mark.parametrize(
    ("operations", "text"),
    [
        ([{"op": "remove", "path": "/spec/ephemeralContainers/0"}], '"d" may not be removed'),
        (
            [{"op": "replace", "path": "/spec/ephemeralContainers/0/image", "value": "y"}],
            '"d" may not be changed',
        ),
        (
            [
                {
                    "op": "add",
                    "path": "/spec/ephemeralContainers/-",
                    "value": {"name": "e", "image": "x", "resources": {"limits": {GPU: "1"}}},
                }
            ],
            "cannot be set for an Ephemeral Container",
        ),
    ],
)
async def test_ephemeral_containers_are_only_ever_added_and_have_no_resources(
    client: Any, kit: Any, operations: Any, text: str
) -> None:
    await client.post("pods", kit.pod())
    add = {"spec": {"ephemeralContainers": [{"name": "d", "image": "x"}]}}
    assert (await client.patch("pods/p/ephemeralcontainers", add, "strategic-merge")).code == 200
    code, status, _ = await client.patch("pods/p/ephemeralcontainers", operations, "json")
    assert code == 422
    assert text in status["message"]


@pytest.mark.parametrize(
    ("spec", "field", "text"),
    [
        ({"matchConditions": [{"name": "x"}]}, "matchConditions", "does not evaluate CEL"),
        ({"sideEffects": "Some"}, "sideEffects", 'supported values: "None", "NoneOnDryRun"'),
        ({"sideEffects": None}, "sideEffects", "Unsupported value"),
        ({"admissionReviewVersions": ["v1beta1"]}, "admissionReviewVersions", "must include v1"),
        ({"failurePolicy": "Maybe"}, "failurePolicy", "Unsupported value"),
        ({"timeoutSeconds": 31}, "timeoutSeconds", "between 1 and 30 seconds"),
        ({"timeoutSeconds": 0}, "timeoutSeconds", "between 1 and 30 seconds"),
        ({"name": "short.io"}, "name", "at least three segments"),
        ({"clientConfig": {}}, "clientConfig", "exactly one of url or service"),
        ({"clientConfig": {"service": {"name": "a"}}}, "clientConfig.service.namespace", "Required value"),
        (
            {"clientConfig": {"url": "http://a/b"}},
            "clientConfig.url",
            "'https' is the only allowed URL scheme",
        ),
        ({"clientConfig": {"url": "https:///b"}}, "clientConfig.url", "host must be specified"),
        ({"clientConfig": {"url": "https://a/b?c"}}, "clientConfig.url", "query parameters"),
        ({"rules": [{"operations": ["CREATE"]}]}, "rules[0].resources", "Required value"),
        ({"rules": [{"operations": ["MAKE"]}]}, "rules[0].operations[0]", "Unsupported value"),
    ],
)
async def test_an_invalid_webhook_is_a_422(hook: Any, spec: dict[str, Any], field: str, text: str) -> None:
    code, status, _ = await hook("mutating", **spec)
    assert code == 422
    found = {cause["field"]: cause["message"] for cause in status["details"]["causes"]}
    assert text in found[f"webhooks[0].{field}"]


async def test_a_webhook_gets_its_defaults(hook: Any) -> None:
    created = (await hook("mutating")).body["webhooks"][0]
    defaults = {
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "timeoutSeconds": 10,
        "reinvocationPolicy": "Never",
        "namespaceSelector": {},
        "objectSelector": {},
    }
    assert created | defaults == created
    assert created["rules"][0]["scope"] == "*"
    assert created["clientConfig"]["service"]["port"] == 443
    assert "reinvocationPolicy" not in (await hook("validating")).body["webhooks"][0]
