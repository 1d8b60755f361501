"""A policy that switches gpufence off, or breaks jobs, without saying so is refused or warned about."""

from __future__ import annotations

import pytest

from policy import gpu
from policy.errors import PolicyError
from policy.load import load_policy


def loaded(**spec):
    document = {
        "apiVersion": "gpufence.io/v1alpha1",
        "kind": "GpuPolicy",
        "metadata": {"name": "default"},
        "spec": spec,
    }
    return load_policy(document)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"auditedPaths": ["/"]}, "spec.gpu.auditedPaths[0]"),
        ({"auditedPaths": ["/dev/shm", "/dev"]}, "spec.gpu.auditedPaths[1]"),
        ({"visibilityVariables": ["PATH"]}, "spec.gpu.visibilityVariables[0]"),
        (
            {"visibilityVariables": ["DOCKER_RESOURCE_GPU", "LD_LIBRARY_PATH"]},
            "spec.gpu.visibilityVariables[1]",
        ),
        ({"visibilityVariables": ["CUDA_VISIBLE_DEVICES"]}, "spec.gpu.visibilityVariables[0]"),
    ],
)
def test_what_could_only_do_harm_is_refused(fields, path):
    with pytest.raises(PolicyError) as raised:
        loaded(gpu=fields)
    assert [problem.path for problem in raised.value.problems] == [path]
    assert raised.value.problems[0].fix


NVIDIA = {"vendor": "nvidia", "devices": ["nvidia.com/*"]}
EXCEPTION = {"name": "e", "rules": ["GF201"], "reason": "r", "owner": "o", "expires": "2027-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("spec", "path", "told"),
    [
        (
            {"gpu": {"resources": [{"vendor": "amd", "devices": ["amd.com/gpu"]}]}},
            "spec.gpu",
            "get `void`, and no GPU",
        ),
        ({"gpu": {"resources": [{**NVIDIA, "vendor": "other"}]}}, "spec.gpu", "get `void`, and no GPU"),
        ({"gpu": {"notGpu": ["nvidia.com/*"]}}, "spec.gpu", "get `void`, and no GPU"),
        ({"gpu": {"resources": [{**NVIDIA, "devices": ["*/*"]}]}}, "spec.gpu.resources", "sees all GPUs"),
        ({"gpu": {"guardedPaths": ["/dev"], "auditedPaths": []}}, "spec.gpu.guardedPaths", "leaves out"),
        ({"gpu": {"deviceAnnotations": ["cdi.k8s.io/"]}}, "spec.gpu.deviceAnnotations", "nvidia.cdi.k8s.io"),
        (
            {
                "gpu": {
                    "deviceAnnotations": [
                        *gpu.DEVICE_ANNOTATIONS[:2],
                        "devices.gke.io/container",
                        *gpu.DEVICE_ANNOTATIONS[3:],
                    ]
                }
            },
            "spec.gpu.deviceAnnotations",
            "devices.gke.io/container.x",
        ),
        ({"rules": [{"rule": "GF107", "mode": "off"}]}, "spec.rules[0]", "off everywhere"),
        (
            {"teams": [{"name": "a", "namespaces": ["*"]}, {"name": "b", "namespaces": ["b"]}]},
            "spec.teams[0]",
            "no team behind it owns one",
        ),
        (
            {"teams": [{"name": "a", "namespaceSelector": {}}, {"name": "b", "namespaces": ["b"]}]},
            "spec.teams[0]",
            "no team behind it owns one",
        ),
        (
            {"exemptions": [{"namespaces": ["*"], "serviceAccounts": ["default"], "reason": "r"}]},
            "spec.exemptions[0].serviceAccounts",
            "account of their own",
        ),
        (
            {"exceptions": [{**EXCEPTION, "namespaces": ["*"]}]},
            "spec.exceptions[0].namespaces",
            "every namespace",
        ),
    ],
)
def test_what_is_probably_not_meant_is_warned_about(spec, path, told):
    found = [
        warning for warning in loaded(**spec).warnings if warning.path == path and told in warning.message
    ]
    assert len(found) == 1
    assert found[0].fix


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"profile": "restricted"},
        {"teams": [{"name": "b", "namespaces": ["b"]}, {"name": "rest", "namespaces": ["*"]}]},
        {
            "rules": [
                {"rule": "GF107", "mode": "off", "namespaces": ["lab"]},
                {"rule": "GF112", "mode": "off"},
            ]
        },
        {"exemptions": [{"namespaces": ["monitoring"], "serviceAccounts": ["node-exporter"], "reason": "r"}]},
        {"exceptions": [{**EXCEPTION, "namespaces": ["lab"]}]},
        {"gpu": {"auditedPaths": ["/dev/shm", "/dev/hugepages"]}},
        {"gpu": {"guardedPaths": [*gpu.GUARDED_PATHS, "/opt/driver"]}},
        {"gpu": {"visibilityVariables": ["DOCKER_RESOURCE_GPU"]}},
    ],
)
def test_ordinary_policies_draw_no_warning(spec):
    assert loaded(**spec).warnings == ()
