"""AdmissionReviews, mostly wrong: a good review with null, missing, huge, deep and wrongly typed fields.

Pure: the generator is an argument, so that one seed gives one sequence of bodies.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from random import Random

Endpoint = Literal["mutate", "validate"]
Path = tuple[str | int, ...]

_UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
_LONG = 20_000  # characters: longer than any name, label or annotation limit, and a whole TLS record
_WIDE = 300  # entries of a list or map
_DEPTHS = (50, 900, 5_000)  # below, about and far above Python's recursion limit of 1000

_MOST_NODES, _DEEPEST = 5_000, 200  # of a body that is made worse once more

_POD_KEYS = (
    *("metadata", "spec", "containers", "initContainers", "ephemeralContainers", "env", "envFrom", "name"),
    *(
        "value",
        "valueFrom",
        "resources",
        "limits",
        "requests",
        "claims",
        "nvidia.com/gpu",
        "volumes",
        "hostPath",
    ),
    *(
        "labels",
        "annotations",
        "ownerReferences",
        "controller",
        "securityContext",
        "capabilities",
        "add",
        "path",
    ),
    *("volumeMounts", "mountPath", "privileged", "hostPID", "gpufence.io/team", "NVIDIA_VISIBLE_DEVICES"),
    *(
        "nodeName",
        "runtimeClassName",
        "resourceClaims",
        "cdi.k8s.io/x",
        "a/b~c",
        "",
        "é",
        "items",
        "template",
    ),
)
_ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1.5,
        1e300,
        2**63,
        -(2**64),
        10**30,
        "",
        "0",
        "x",
        "all",
        "void",
        " ",
        "\n",
        "\0",
    ),
    *(
        "\u2028",
        "🙂",
        "nvidia.com/gpu",
        "/dev/nvidia0",
        "../../dev",
        "$(NVIDIA_VISIBLE_DEVICES)",
        "1Ki",
        "-1",
        "1e9",
    ),
    *(
        [],
        {},
        [None],
        [[]],
        [{}],
        {"": None},
        ["x", 1, None],
        {"name": None},
        [{"name": "main"}, {"name": "main"}],
    ),
)
_TAILS = (b"", b"\0", b"{}", b"]", b",", b"\xff", b"\xef\xbb\xbf", b"// comment", b"\n\n")


class ReviewCase(NamedTuple):
    """A body for one endpoint. Whether it is a review at all is for the judge to find out."""

    endpoint: Endpoint
    body: bytes


def good_review(uid: str = _UID) -> dict[str, Any]:
    """Return a review that every policy of the tests lets in, with a patch from /mutate."""
    return _review(
        {"metadata": {"name": "p", "namespace": "vision"}, "spec": {"containers": [_container()]}}, uid=uid
    )


def review_case(rng: Random) -> ReviewCase:
    """Return the next body."""
    value: Any = _base(rng)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 8))):
        value = _wronged(value, rng)
    body = _written(value, rng)
    if rng.random() < 0.1:  # one body in ten is no longer what an encoder would write
        body = _damaged(body, rng)
    return ReviewCase(rng.choice(("mutate", "mutate", "validate")), body)


def paths(value: Any, at: Path = ()) -> list[Path]:
    """Return the paths of all nodes, parents before children. Not recursive: values may be deep."""
    found, todo = [], [(at, value)]
    while todo:
        here, node = todo.pop()
        found.append(here)
        children = (
            node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        )
        todo += [((*here, key), child) for key, child in children]
    return found


def without(value: Any, path: Path) -> Any:
    """Return a copy without the node at the path, which is not the root."""
    changed = _copy(value)
    del _at(changed, path[:-1])[path[-1]]
    return changed


def replaced(value: Any, path: Path, new: Any) -> Any:
    """Return a copy with another node at the path; the root may be replaced too."""
    if not path:
        return new
    changed = _copy(value)
    _at(changed, path[:-1])[path[-1]] = new
    return changed


def _copy(value: Any) -> Any:
    return json.loads(json.dumps(value))  # copy.deepcopy takes three frames a level


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _container() -> dict[str, Any]:
    return {
        "name": "main",
        "image": "i",
        "env": [{"name": "A", "value": "b"}],
        "resources": {"limits": {"cpu": "1"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "securityContext": {"privileged": False, "capabilities": {"drop": ["ALL"]}},
    }


def _base(rng: Random) -> dict[str, Any]:
    """Return a review of one of the kinds that the webhook judges, or of one that it does not."""
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "namespace": "vision",
            "labels": {"app": "x"},
            "annotations": {"a": "b"},
            "ownerReferences": [{"kind": "Job", "name": "j", "controller": True}],
        },
        "spec": {
            "containers": [_container() for _ in range(rng.choice((1, 1, 2)))],
            "initContainers": [{**_container(), "name": "init"}],
            "volumes": [{"name": "data", "hostPath": {"path": "/data"}}],
        },
    }
    if rng.random() < 0.5:  # every second pod asks for a GPU
        pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "1"
    debug = {**pod, "spec": {**pod["spec"], "ephemeralContainers": [{"name": "debug", "image": "i"}]}}
    template = {"metadata": pod["metadata"], "spec": pod["spec"]}
    policy = {
        "apiVersion": "gpufence.io/v1alpha1",
        "kind": "GpuPolicy",
        "metadata": {"name": "default"},
        "spec": {"profile": "baseline", "teams": [{"name": "vision", "namespaces": ["vision"]}]},
    }
    return rng.choice(
        (
            lambda: _review(pod),
            lambda: _review(pod),
            lambda: _review(pod, operation="UPDATE", oldObject=_copy(pod)),
            lambda: _review(debug, operation="UPDATE", subResource="ephemeralcontainers", oldObject=pod),
            lambda: _review({"spec": {"template": template}}, resource=("apps", "v1", "deployments")),
            lambda: _review(
                {"spec": {"jobTemplate": {"spec": {"template": template}}}},
                resource=("batch", "v1", "cronjobs"),
            ),
            lambda: _review(policy, resource=("gpufence.io", "v1alpha1", "gpupolicies")),
            lambda: _review(pod, operation="DELETE"),
        )
    )()


def _review(
    raw: Any, uid: str = _UID, resource: tuple[str, str, str] = ("", "v1", "pods"), **request: Any
) -> dict[str, Any]:
    gvr = dict(zip(("group", "version", "resource"), resource, strict=True))
    fields = {
        "uid": uid,
        "kind": {"group": resource[0], "version": resource[1], "kind": "Pod"},
        "resource": gvr,
        "subResource": "",
        "name": "p",
        "namespace": "vision",
        "operation": "CREATE",
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
        "object": raw,
        "oldObject": None,
        "dryRun": False,
        **request,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": fields}


def _wronged(value: Any, rng: Random) -> Any:
    """Return the value with one fault, most often inside the object."""
    every = paths(value)
    if len(every) > _MOST_NODES or max(map(len, every)) > _DEEPEST:
        return value
    inside = [path for path in every if path[:2] == ("request", "object")]
    path = rng.choice(inside if inside and rng.random() < 0.8 else every)  # four in five
    node = _at(value, path)
    match rng.randrange(7):
        case 0 if path:
            return without(value, path)
        case 1 if isinstance(node, dict):
            return replaced(value, (*path, rng.choice(_POD_KEYS)), rng.choice(_ODD))
        case 2 if isinstance(node, list):
            return replaced(value, path, [*node, rng.choice((*_ODD, *node))])
        case 3:
            return replaced(value, path, _at(value, rng.choice(every)))  # a subtree where it does not belong
        case 4 if rng.random() < 0.3:  # huge values take long to send
            return replaced(value, path, _huge(node, rng))
        case _:
            return replaced(value, path, rng.choice(_ODD))


def _huge(node: Any, rng: Random) -> Any:
    deep: Any = node
    for _ in range(_DEPTHS[0]):
        deep = [deep] if rng.random() < 0.5 else {"a": deep}  # either, evenly
    return rng.choice(
        (
            "x" * _LONG,
            "/" * _LONG,
            "é" * _LONG,
            int("9" * rng.choice((20, 300, 4_000))),
            [node] * (_WIDE if len(paths(node)) < 20 else 2),  # small things many times
            {f"key-{number}": None for number in range(_WIDE)},
            deep,
        )
    )


def _written(value: Any, rng: Random) -> bytes:
    return json.dumps(
        value, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, None, None, 1))
    ).encode(  # either, evenly
        "utf-8", "surrogatepass"
    )


def _damaged(body: bytes, rng: Random) -> bytes:
    """Return bytes that no encoder writes, or that an encoder of another language does."""
    at = rng.randrange(len(body) + 1)
    depth = rng.choice(_DEPTHS)
    match rng.randrange(9):
        case 0:
            return body[:at]
        case 1:
            return body[:at] + rng.randbytes(rng.randrange(1, 9)) + body[at + 1 :]
        case 2:
            return rng.choice(_TAILS) + body + rng.choice(_TAILS)
        case 3:  # deeper than a recursive reader can go, in a field that no rule reads
            return body.replace(b'"dryRun"', b'"deep": ' + b"[" * depth + b"]" * depth + b', "dryRun"')
        case 4:  # the same inside the pod
            return body.replace(
                b'"image"', b'"deep": ' + b'{"a":' * depth + b"1" + b"}" * depth + b', "image"'
            )
        case 5:
            return body.replace(
                b'"x"', rng.choice((b"NaN", b"-Infinity", b"1e999", b'"\\ud800"', b"0x1", b"'x'"))
            )
        case 6:
            return body.replace(b'"uid"', b'"uid": "first", "uid"').replace(b'"spec"', b'"spec": 1, "spec"')
        case 7:
            return body.decode("utf-8", "replace").encode(rng.choice(("utf-16", "utf-32", "utf-8-sig")))
        case _:
            return rng.randbytes(rng.randrange(200))
