"""The ValidatingAdmissionPolicy of rule GF106, from the table of reserved names."""

from __future__ import annotations

import textwrap

from policy.catalogue import RULES
from policy.gpu import RESERVED_NAMES

NAME = "gpufence-reserved-configmap-keys"

_TEMPLATE = """\
# Generated from policy/gpu.py; do not edit. To change it: make generate
#
# GF106: {title}.
#
# {why}
#
# The API server evaluates this by itself (Kubernetes 1.30 and later), so that no ConfigMap and no Secret is
# ever sent to a webhook. Secrets are left out: whoever may read the audit log would learn the names of their
# keys, and rule GF105 judges the pod that takes one.
#
# - Only keys that a request ADDS are judged, so that a ConfigMap which has one already can still be changed.
# - A key such as VISIBLE_DEVICES, which a prefix of envFrom completes, is not judged here: the prefix stands
#   in the pod, where GF105 refuses it.
# - failurePolicy Ignore: a fault of the evaluation must not stop ConfigMaps, which the control plane itself
#   writes in every namespace; the pod that uses the key is still judged.
# - validationActions [Audit]: nothing is refused; the audit event carries the annotation
#   {name}/added-keys. Set [Warn, Audit] to tell the
#   author too, or [Deny, Audit] to refuse.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {name}
  labels:
    app.kubernetes.io/name: gpufence
spec:
  failurePolicy: Ignore
  matchConstraints:
    resourceRules:
    - apiGroups: [""]
      apiVersions: ["v1"]
      operations: ["CREATE", "UPDATE"]
      resources: ["configmaps"]
  variables:
  - name: reserved
    expression: >-
      [{names}]
  - name: before
    expression: >-
      oldObject == null ? [] : variables.reserved.filter(name,
      (has(oldObject.data) && name in oldObject.data) ||
      (has(oldObject.binaryData) && name in oldObject.binaryData))
  - name: added
    expression: >-
      variables.reserved.filter(name, !(name in variables.before) &&
      ((has(object.data) && name in object.data) ||
      (has(object.binaryData) && name in object.binaryData)))
  validations:
  - expression: size(variables.added) == 0
    messageExpression: >-
      '[GF106] the ConfigMap gets ' + variables.added.join(', ') +
      ', which changes the GPUs of every pod that takes it by envFrom. Fix: {fix}'
    reason: Invalid
  auditAnnotations:
  - key: added-keys
    valueExpression: >-
      variables.added.join(', ')
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {name}
  labels:
    app.kubernetes.io/name: gpufence
spec:
  policyName: {name}
  validationActions: ["Audit"]
"""


def configmap_policy() -> str:
    """Return the policy and its binding as YAML."""
    rule = RULES["GF106"]
    return _TEMPLATE.format(
        name=NAME,
        title=rule.title,
        why=_comment(rule.why),
        fix=rule.fix.replace("'", "\\'"),
        names=",\n      ".join(f"'{reserved.name}'" for reserved in RESERVED_NAMES),
    )


def _comment(text: str) -> str:
    return "\n# ".join(textwrap.wrap(text, 108))
