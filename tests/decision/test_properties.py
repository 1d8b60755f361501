"""What holds for every pod, whatever a tenant writes, judged with a small model of the kubelet."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
from hypothesis import given, settings
from hypothesis import strategies as st

NVD = "NVIDIA_VISIBLE_DEVICES"
EXTRA = "DOCKER_RESOURCE_GPU"

names = st.sampled_from([NVD, NVD, EXTRA, "A", "B", "NVIDIA_DRIVER_CAPABILITIES", "LD_PRELOAD", "NVIDIA_GDS"])
values = st.sampled_from(
    ["void", "all", "none", "", "0", "GPU-1", "$(A)", "$$(A)", "nvidia.com/gpu=all", "compute", "enabled"]
)
literal = st.builds(lambda name, value: {"name": name, "value": value}, names, values)
reference = st.builds(
    lambda name, kind: {"name": name, "valueFrom": {kind: {"name": "cm", "key": "k"}}},
    names,
    st.sampled_from(["configMapKeyRef", "secretKeyRef", "fieldRef", "fileKeyRef"]),
)
env = st.none() | st.lists(literal | reference | st.builds(lambda name: {"name": name}, names), max_size=5)
prefixes = st.sampled_from([None, "", "NVIDIA_", "N", "APP_", "DOCKER_"])
sources = st.builds(
    lambda prefix, kind: {kind: {"name": "cm"}} | ({} if prefix is None else {"prefix": prefix}),
    prefixes,
    st.sampled_from(["configMapRef", "secretRef"]),
)
quantities = st.sampled_from(["1", 1, "0", 0, None, "2", "500m", "x", "-1", "1e3"])
resources = st.none() | st.builds(
    lambda limits, extra: {"limits": limits, **extra},
    st.dictionaries(
        st.sampled_from(
            [
                "cpu",
                "nvidia.com/gpu",
                "nvidia.com/mig-1g.5gb",
                "nvidia.com/hostdev",
                "amd.com/gpu",
                "nvidia.com/gpumem",
            ]
        ),
        quantities,
        max_size=2,
    ),
    st.sampled_from([{}, {"claims": [{"name": "c"}]}, {"requests": {"nvidia.com/gpu": "1"}}]),
)
security = st.sampled_from([None, {}, {}, {"privileged": True}, {"capabilities": {"add": ["cap_sys_admin"]}}])
mounts = st.lists(
    st.sampled_from(["/data", "/dev/shm", "/var/run/nvidia-container-devices/all"]).map(
        lambda p: {"name": "v", "mountPath": p}
    ),
    max_size=1,
)


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with any subset of the fields, and one field that nobody knows."""
    return st.fixed_dictionaries({}, optional={**fields, "fieldFromTheFuture": st.just({"a": [1, None]})})


containers = optional(
    env=env,
    envFrom=st.none() | st.lists(sources, max_size=2),
    resources=resources,
    securityContext=security,
    volumeMounts=mounts,
    restartPolicy=st.just("Always"),
)
label_keys = st.sampled_from(
    ["gpufence.io/team", "gpufence.io/cost-center", "gpufence.io/workload", "app", "kai.scheduler/queue"]
)
annotation_keys = st.sampled_from(
    ["gpufence.io/decision", "gpufence.io/team", "cdi.k8s.io/x", "note", "gpu-fraction"]
)
metadata = optional(
    name=st.just("p"),
    generateName=st.just("p-"),
    labels=st.none() | st.dictionaries(label_keys, st.sampled_from(["vision", "speech", "x"]), max_size=3),
    annotations=st.none() | st.dictionaries(annotation_keys, st.sampled_from(["0.5", "x"]), max_size=2),
    ownerReferences=st.just([{"kind": "ReplicaSet", "name": "r-1", "controller": True}]),
)
volumes = st.lists(
    st.sampled_from(["/dev/shm", "/data", "/dev", "/var/run/docker.sock"]).map(
        lambda p: {"name": "v", "hostPath": {"path": p}}
    ),
    max_size=1,
)
spec_fields = optional(
    hostPID=st.booleans(),
    hostIPC=st.booleans(),
    runtimeClassName=st.sampled_from(["nvidia", "runc"]),
    serviceAccountName=st.sampled_from(["default", "nvidia-device-plugin"]),
    schedulerName=st.sampled_from(["kai-scheduler", "default-scheduler"]),
    volumes=volumes,
    resourceClaims=st.just([{"name": "c"}]),
)


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    spec = draw(spec_fields)
    apps = draw(st.lists(containers, min_size=1, max_size=3))
    inits = draw(st.lists(containers, max_size=2))
    spec["containers"] = [{"name": f"app-{index}", **fields} for index, fields in enumerate(apps)]
    if inits:
        spec["initContainers"] = [{"name": f"init-{index}", **fields} for index, fields in enumerate(inits)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": draw(metadata), "spec": spec}


def every_container(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def kubelet_env(
    container: dict[str, Any], supplied: dict[str, str], plugin: dict[str, str], image: dict[str, str]
) -> dict[str, str]:
    """Merge as the kubelet and the runtime do: image < plugin < envFrom < env, the last of equals wins.

    kubernetes pkg/kubelet/kubelet_pods.go makeEnvironmentVariables; `supplied` are the keys of every ConfigMap and
    Secret, and the value of every reference.
    """
    result: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        result |= {(source.get("prefix") or "") + key: value for key, value in supplied.items()}
    for entry in container.get("env") or []:
        if entry.get("valueFrom") is not None:
            result[entry["name"]] = supplied.get(NVD, "all")
        else:
            result[entry["name"]] = expanded(entry.get("value") or "", result)
    return image | plugin | result


def expanded(value: str, known: dict[str, str]) -> str:
    for name, replacement in known.items():
        value = value.replace(f"$({name})", replacement)
    return value


def without_ours(pod: dict[str, Any]) -> dict[str, Any]:
    """Take away everything that gpufence owns."""
    pod = copy.deepcopy(pod)
    for container in every_container(pod):
        kept = [entry for entry in container.get("env") or [] if entry["name"] not in {NVD, EXTRA}]
        container["env"] = kept
    for field in ("labels", "annotations"):
        pod["metadata"][field] = {
            k: v for k, v in (pod["metadata"].get(field) or {}).items() if not k.startswith("gpufence.io/")
        }
    return pod


def requests_nvidia(container: dict[str, Any]) -> bool:
    found = (container.get("resources") or {}).get("limits", {}) | (container.get("resources") or {}).get(
        "requests", {}
    )
    names = ("nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/gpumem")
    return any(found.get(name) not in (None, 0, "0") for name in names)


ADVERSARY = {
    NVD: "all",
    EXTRA: "all",
    "VISIBLE_DEVICES": "all",
    "VIDIA_VISIBLE_DEVICES": "all",
    "RESOURCE_GPU": "all",
    "A": "all",
}


@given(pods())
def test_patching_twice_equals_patching_once(judge, pod):
    decision = judge(pod)
    if decision.allowed:
        patched = jsonpatch.apply_patch(pod, list(decision.patch))
        assert judge(patched).patch == ()


@given(pods())
def test_only_owned_fields_change_and_unknown_ones_survive(judge_with, pod):
    decision = judge_with(gpu={"visibilityVariables": [EXTRA]})(pod)
    patched = jsonpatch.apply_patch(pod, list(decision.patch))
    assert without_ours(patched) == without_ours(pod)


@given(pods())
def test_a_denied_pod_has_no_patch_and_a_reason(judge, pod):
    decision = judge(pod)
    denied = [judged for judged in decision.hits if judged.action == "denied"]
    assert decision.allowed == (not denied)
    assert decision.allowed or (decision.patch == () and decision.edits == ())
    assert bool(decision.message) != decision.allowed


@given(pods(), st.randoms(use_true_random=False))
def test_the_order_of_containers_never_changes_the_verdict(judge, pod, random):
    def told(decision):
        return decision.verdict, sorted(
            (judged.hit.rule, judged.hit.container or "", judged.action) for judged in decision.hits
        )

    shuffled = copy.deepcopy(pod)
    random.shuffle(shuffled["spec"]["containers"])
    random.shuffle(shuffled["spec"].get("initContainers", []))
    assert told(judge(shuffled)) == told(judge(pod))


@settings(max_examples=300)
@given(pods())
def test_after_mutation_no_container_without_a_request_can_resolve_to_anything_but_void(judge_with, pod):
    judge = judge_with(gpu={"visibilityVariables": [EXTRA]})
    decision = judge(pod)
    if not decision.allowed:
        return
    patched = jsonpatch.apply_patch(pod, list(decision.patch))
    for container in every_container(patched):
        if not requests_nvidia(container):
            final = kubelet_env(container, ADVERSARY, {}, {NVD: "all", EXTRA: "all"})
            assert (final[NVD], final[EXTRA]) == ("void", "void")


@settings(max_examples=300)
@given(pods())
def test_after_mutation_no_container_with_a_request_has_an_entry_of_its_own(judge_with, pod):
    judge = judge_with(gpu={"visibilityVariables": [EXTRA]})
    decision = judge(pod)
    if not decision.allowed:
        return
    patched = jsonpatch.apply_patch(pod, list(decision.patch))
    for container in every_container(patched):
        if requests_nvidia(container):
            assert not {entry["name"] for entry in container.get("env") or []} & {NVD, EXTRA}


@given(pods())
def test_under_restricted_a_container_with_a_request_keeps_the_value_of_the_plugin(strict, pod):
    decision = strict(pod)
    if not decision.allowed:
        return
    patched = jsonpatch.apply_patch(pod, list(decision.patch))
    for container in every_container(patched):
        if requests_nvidia(container):
            assert kubelet_env(container, ADVERSARY, {NVD: "GPU-1"}, {NVD: "all"})[NVD] == "GPU-1"


@given(pods())
def test_a_pod_that_mutate_patched_passes_validate(judge, pod):
    decision = judge(pod)
    if decision.allowed:
        final = judge.final(jsonpatch.apply_patch(pod, list(decision.patch)))
        assert final.allowed, final.message


@given(pods())
def test_mutate_and_validate_agree_on_the_digest_of_a_gpu_pod(judge, pod):
    decision = judge(pod)
    if decision.allowed and not decision.exempt:
        patched = jsonpatch.apply_patch(pod, list(decision.patch))
        assert judge.final(patched).digest == patched["metadata"]["annotations"]["gpufence.io/decision"]


@given(pods())
def test_in_audit_mode_nothing_is_denied_and_nothing_is_changed(judge_with, pod):
    judge = judge_with(enforcement="audit")
    decision = judge(pod)
    assert decision.allowed
    assert decision.patch == ()
    assert judge.final(pod).allowed


@given(pods())
def test_a_judgement_never_changes_the_pod_it_is_given(judge, pod):
    before = copy.deepcopy(pod)
    judge(pod)
    assert pod == before
