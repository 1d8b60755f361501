"""Paths of the node, compared the way the toolkit and the kubelet read them: lexically, never following links."""

from __future__ import annotations

import posixpath
import re

# Also nested: /proc/1/root/proc/self/root/dev is /dev.
_ROOT_OF_A_PROCESS = re.compile(r"^(?:/proc/(?:\d+|self|thread-self)(?:/task/\d+)?/root)+(?:/|$)")


def clean(path: str) -> str:
    """Return the absolute form without `.`, `..` and doubled slashes (Go's path.Clean on "/" + path).

    A relative mountPath is taken from "/", as the kubelet does (kubelet_pods.go makeMounts). Two leading slashes are
    one: Python's normpath would keep them.
    """
    return "/" + posixpath.normpath("/" + path).lstrip("/")


def node_path(path: str) -> str:
    """Return the cleaned path under the name that the tables use.

    The kubelet follows links of the node: /proc/PID/root is the root of a process, and for the kubelet itself and for
    pid 1 the node's; /var/run is a link to /run.
    """
    cleaned = _ROOT_OF_A_PROCESS.sub("/", clean(path))
    if cleaned == "/var/run" or cleaned.startswith("/var/run/"):
        return cleaned[4:]
    return cleaned


def within(path: str, root: str) -> bool:
    """Whether a cleaned path is the root or below it."""
    return root in (path, "/") or path.startswith(root + "/")


def touches(path: str, guarded: str) -> bool:
    """Whether a cleaned path is the guarded one, below it, or a parent that contains it."""
    return within(path, guarded) or within(guarded, path)
