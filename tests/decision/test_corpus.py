"""Manifests that public projects publish, each with an expectation: `EXPECT.json` beside them says what and why.

They are judged as an ordinary tenant's, in an ordinary namespace, by the baseline profile.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import jsonpatch
import pytest

from cli.check.judge import Asked
from cli.check.results import Judged
from cli.check.run import outcomes
from policy.decide import judge_final, mutate
from policy.default import DEFAULT_DOCUMENT
from policy.load import load_policy
from policy.model import Context
from policy.pod import pod_view
from policy.unreadable import Unreadable

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
NOW = datetime(2026, 11, 30, tzinfo=UTC)
POLICY = load_policy(DEFAULT_DOCUMENT).policy

if not CORPUS.is_dir():
    pytest.skip(f"the corpus of public manifests is not at {CORPUS}", allow_module_level=True)


def expectations(*kinds):
    """Every template with one of the expectations, as pytest parameters."""
    found = []
    for file in json.loads((CORPUS / "EXPECT.json").read_text()):
        for template in file["templates"]:
            if template["expect"] in kinds:
                name = f"{file['file'].removesuffix('.yaml')}:{template['doc']}:{template['path']}"
                found.append(pytest.param(file["file"], template, id=name))
    return found


def template_of(file, expected):
    """The template as `check` finds it."""
    asked = Asked(POLICY, NOW, lambda _: Unreadable("a test"), namespace="tenant")
    found = [
        outcome
        for outcome in outcomes([str(CORPUS / file)], asked)
        if isinstance(outcome, Judged)
        and (outcome.document, outcome.path) == (expected["doc"], expected["path"])
    ]
    assert len(found) == 1
    return found[0]


def judged(found, namespace="tenant", policy=POLICY):
    view = pod_view(found.pod, controlled=found.kind != "Pod")
    return mutate(view, policy, Context(namespace, NOW, {}))


# What EXPECT.json asks a strict policy to refuse and this one does not even record, and why.
DISAGREE = {
    "hostPath /tmp/nvidia-mps": "GF207, with the other faces of MPS, and not GF203",
    "hostPath /run/nvidia/mps": "GF203 as /run/nvidia, and GF207",
}


def wanted_rules(why):
    """The rules that the reasons of an expectation call for."""
    rules = set()
    for reason in why.split("; "):
        if reason.startswith("hostPath"):
            if reason == "hostPath /tmp/nvidia-mps":
                rules.add("GF207")
            elif reason not in DISAGREE:
                rules.add("GF203")
        for text, rule in (
            (": privileged", "GF201"),
            ("cap SYS_ADMIN", "GF202"),
            ("hostPID", "GF204"),
            ("hostIPC", "GF205"),
            ("annotation", "GF107"),
            ("NVIDIA_MIG_CONFIG_DEVICES", "GF109"),
        ):
            if text in reason:
                rules.add(rule)
    return rules


@pytest.mark.parametrize(("file", "expected"), expectations("clean"))
def test_what_is_clean_is_not_denied(file, expected):
    decision = judged(template_of(file, expected))
    assert decision.allowed, decision.message


@pytest.mark.parametrize(("file", "expected"), expectations("clean"))
def test_what_is_clean_keeps_the_gpus_it_requested_and_no_others(file, expected):
    found = template_of(file, expected)
    pod = jsonpatch.apply_patch(found.pod, list(judged(found).patch))
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in pod["spec"].get(kind) or []:
            values = [
                e.get("value") for e in container.get("env") or [] if e["name"] == "NVIDIA_VISIBLE_DEVICES"
            ]
            by_request = f"{container['name']} (" in expected["why"] and "GPU by request" in expected["why"]
            assert values == ([] if by_request else ["void"]), container["name"]


@pytest.mark.parametrize(("file", "expected"), expectations("refuse", "infrastructure"))
def test_what_is_to_be_refused_has_a_hit_of_every_right_rule(file, expected):
    hits = {judgement.hit.rule for judgement in judged(template_of(file, expected)).hits}
    wanted = wanted_rules(expected["why"])
    assert wanted, "the expectation names no reason that the test understands"
    assert wanted <= hits


@pytest.mark.parametrize(("file", "expected"), expectations("refuse", "infrastructure"))
def test_restricted_refuses_all_of_it_but_shared_memory(file, expected):
    restricted = load_policy({**DEFAULT_DOCUMENT, "spec": {"profile": "restricted"}}).policy
    decision = judged(template_of(file, expected), policy=restricted)
    only_shared_memory = expected["why"] == "hostPath /dev/shm"
    denied = {judgement.hit.rule for judgement in decision.hits if judgement.action == "denied"} - {
        "GF301",
        "GF401",
    }
    assert bool(denied) != only_shared_memory


@pytest.mark.parametrize(("file", "expected"), expectations("infrastructure"))
def test_infrastructure_passes_unchanged_in_its_own_exempt_namespace(file, expected):
    found = template_of(file, expected)
    spec = found.pod["spec"]
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    exemption = {"namespaces": ["platform"], "serviceAccounts": [account], "reason": "the platform's own"}
    policy = load_policy({**DEFAULT_DOCUMENT, "spec": {"exemptions": [exemption]}}).policy
    decision = judged(found, "platform", policy)
    assert decision.allowed
    assert decision.patch == ()
    assert {judgement.action for judgement in decision.hits} == {"audited"}


@pytest.mark.parametrize(("file", "expected"), expectations("fixable"))
def test_what_is_fixable_ends_safe(file, expected):
    found = template_of(file, expected)
    decision = judged(found)
    pod = jsonpatch.apply_patch(found.pod, list(decision.patch))
    final = judge_final(pod_view(pod), POLICY, Context("tenant", NOW, {}))
    assert final.allowed, final.message
    assert {judgement.action for judgement in final.hits} <= {"audited", "warned"}
    assert any(judgement.action == "fixed" for judgement in decision.hits)
