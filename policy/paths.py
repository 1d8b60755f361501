"""Paths of the node, compared the way the toolkit and the kubelet read them: lexically, never following links."""

from __future__ import annotations

import posixpath


def clean(path: str) -> str:
    """Return the absolute form without `.`, `..` and doubled slashes (Go's path.Clean on "/" + path).

    A relative mountPath is taken from "/", as the kubelet does (kubelet_pods.go makeMounts). Two leading slashes are
    one: Python's normpath would keep them.
    """
    return "/" + posixpath.normpath("/" + path).lstrip("/")


def node_path(path: str) -> str:
    """Return the cleaned path with /var/run written as /run, of which it is an alias on every node."""
    cleaned = clean(path)
    if cleaned == "/var/run" or cleaned.startswith("/var/run/"):
        return cleaned[4:]
    return cleaned


def within(path: str, root: str) -> bool:
    """Whether a cleaned path is the root or below it."""
    return root in (path, "/") or path.startswith(root + "/")


def touches(path: str, guarded: str) -> bool:
    """Whether a cleaned path is the guarded one, below it, or a parent that contains it."""
    return within(path, guarded) or within(guarded, path)
