"""The forms that the texts of a GpuPolicy have, and how to say that one has another form.

Data only. The expressions are in the common subset of Rust's regex (pydantic) and RE2 (the API server), so
that one text checks a value in a file and, in the CRD, at `kubectl apply`. Both take linear time.
"""

from __future__ import annotations

import msgspec


class Format(msgspec.Struct, frozen=True):
    """A form: the expression, the longest value, what it is (after "is not"), and what to write instead."""

    pattern: str
    longest: int
    what: str
    fix: str


_ONLY_STAR = "`*` is the only wildcard."

# Namespaces are DNS labels, service accounts DNS subdomains; a `*` stands for any run of characters.
_NAMESPACE = r"[a-z0-9*]([-a-z0-9*]*[a-z0-9*])?"
_SUBDOMAIN = r"[a-z0-9*]([-a-z0-9.*]*[a-z0-9*])?"
_QUALIFIED = r"[A-Za-z0-9*]([-A-Za-z0-9_.*]*[A-Za-z0-9*])?"

NAMESPACE_PATTERN = Format(
    pattern=rf"^{_NAMESPACE}$",
    longest=63,
    what="a namespace name, with or without wildcards",
    fix=f"Write lower-case letters, digits and '-', as in `vision` or `vision-*`; {_ONLY_STAR}",
)
SERVICE_ACCOUNT_PATTERN = Format(
    pattern=rf"^{_SUBDOMAIN}$",
    longest=253,
    what="a service account name, with or without wildcards",
    fix=f"Write the name alone, without the namespace, as in `trainer` or `train-*`; {_ONLY_STAR}",
)
SERVICE_ACCOUNT_PATH_PATTERN = Format(
    pattern=rf"^{_NAMESPACE}/{_SUBDOMAIN}$",
    longest=317,
    what="a service account in the form namespace/name",
    fix=f"Write both parts, as in `shared/vision-*`; {_ONLY_STAR}",
)
RESOURCE_PATTERN = Format(
    pattern=rf"^{_SUBDOMAIN}/{_QUALIFIED}$",
    longest=317,
    what="a resource name in the form domain/name, with or without wildcards",
    fix=f"Write it as a pod requests it, as in `nvidia.com/gpu` or `nvidia.com/mig-1g.*`; {_ONLY_STAR}",
)
OBJECT_NAME = Format(
    pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
    longest=253,
    what="the name of a Kubernetes object",
    fix="Write the exact name: lower-case letters, digits, '-' and '.', and no wildcard.",
)
EXCEPTION_NAME = Format(
    pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    longest=63,
    what="a name",
    fix="Write lower-case letters, digits and '-', as in `vision-legacy`.",
)
RULE_ID = Format(
    pattern=r"^GF[0-9]{3}$",
    longest=5,
    what="the id of a rule",
    fix="Write an id such as GF201: `gpufence rules` lists them.",
)
CASE_NAME = Format(
    pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
    longest=63,
    what="the name of a case",
    fix="Write a case of the rule; `gpufence rules` lists them.",
)
ENVIRONMENT_NAME = Format(
    pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$",
    longest=253,
    what="the name of an environment variable",
    fix="Write letters, digits, '_', '-' and '.', not starting with a digit.",
)
ANNOTATION_KEY = Format(
    # Upper case is for keys without a domain (io.kubernetes.cri-o.Devices); a domain with it matches nothing.
    pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9.])?(/([A-Za-z0-9][-A-Za-z0-9_.]*)?)?$",
    longest=317,
    what="an annotation key, a prefix of one, or a domain",
    fix="Write a prefix that ends in '/' or '.', such as `cdi.k8s.io/`, or a domain: `nvidia.cdi.k8s.io`.",
)
LABEL_KEY = Format(
    pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
    longest=317,
    what="a label key",
    fix="Write it as the namespace carries it, as in `team` or `example.com/team`.",
)
LABEL_VALUE = Format(
    pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$",
    longest=63,
    what="a label value",
    fix="Write letters, digits, '-', '_' and '.', with a letter or digit at both ends, and no wildcard.",
)
QUEUE_NAME = Format(
    pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
    longest=63,
    what="the name of a queue",
    fix="Write the exact name, as the queue label of the pod has it; wildcards are not possible.",
)
CAPABILITY = Format(
    pattern=r"^[a-z0-9]+$",
    longest=63,
    what="a driver capability",
    fix="Write one name per entry, as in `compute`.",
)
PROVIDER_NAME = Format(
    pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    longest=63,
    what="the name of a sharing provider",
    fix="Write a provider that gpufence knows, as in `kai`.",
)
ABSOLUTE_PATH = Format(
    pattern=r"^/[^*\x00-\x1f]*$",
    longest=4096,
    what="an absolute path without wildcards",
    fix="Write the directory or file itself, as in `/dev`: all that is below a path belongs to it.",
)
# That nothing is invisible and no space is at the ends is checked in Python, which knows Unicode better.
NAME_FOR_PEOPLE = Format(
    pattern=r"^[^\x00-\x1f\x7f]+$",
    longest=253,
    what="one line of printable text",
    fix="Write at least one character, and no line breaks or other control characters.",
)

FORMATS: dict[str, Format] = {
    form.pattern: form
    for form in (
        NAMESPACE_PATTERN,
        SERVICE_ACCOUNT_PATTERN,
        SERVICE_ACCOUNT_PATH_PATTERN,
        RESOURCE_PATTERN,
        OBJECT_NAME,
        EXCEPTION_NAME,
        RULE_ID,
        CASE_NAME,
        ENVIRONMENT_NAME,
        ANNOTATION_KEY,
        LABEL_KEY,
        LABEL_VALUE,
        QUEUE_NAME,
        CAPABILITY,
        ABSOLUTE_PATH,
        NAME_FOR_PEOPLE,
    )
}
