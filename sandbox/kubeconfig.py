"""A kubeconfig for the sandbox, so that an ordinary kubectl talks to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pathlib import Path


def write_kubeconfig(path: Path, url: str, ca: Path | None, token: str) -> Path:
    """Write a kubeconfig with one cluster and one context; return its path. JSON is YAML, so kubectl reads it.

    Without credentials kubectl asks for a user name as soon as the server speaks TLS.
    """
    trusted = {} if ca is None else {"certificate-authority": str(ca)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "sandbox", "cluster": {"server": url, **trusted}}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [
            {"name": "sandbox", "context": {"cluster": "sandbox", "user": "admin", "namespace": "default"}}
        ],
        "current-context": "sandbox",
    }
    path.write_bytes(msgspec.json.format(msgspec.json.encode(config), indent=2))
    return path
