"""A scene: what is asked of the cluster, and what must come back. Scenes are YAML files; the runner never changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from policy.errors import CallerError
from serve.documents import parse_document, read_text

SCENES = Path(__file__).parent / "scenes"
WORLD = Path(__file__).parent / "world"


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What must come back.

    `rules` are the rules that must have hit in the call that decided. `env` maps a container to all its literal
    variables, `labels` are labels that the stored pod must have, `warnings` rules that must be warned about.
    """

    allowed: bool
    rules: tuple[str, ...] = ()
    env: dict[str, dict[str, str]] = {}
    labels: dict[str, str] = {}
    warnings: tuple[str, ...] = ()


class Labelling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change of the labels of a pod that exists."""

    namespace: str
    pod: str
    labels: dict[str, str]


class Debugging(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A container added to a pod that exists, as `kubectl debug` does."""

    namespace: str
    pod: str
    container: dict[str, Any]


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """One request: exactly one of `create` (a pod), `label` and `debug`. `asked` says it in a few words."""

    asked: str
    expect: Expected
    create: dict[str, Any] | None = None
    label: Labelling | None = None
    debug: Debugging | None = None
    user: str = "alice"
    groups: tuple[str, ...] = ("system:authenticated",)
    dry_run: bool = False


class Scene(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A title and its steps, in order; later steps see what earlier ones made."""

    title: str
    steps: tuple[Step, ...]


def read_scene(path: Path) -> Scene:
    """Read one scene; CallerError names the file and what is wrong in it."""
    try:
        scene = msgspec.convert(parse_document(read_text(path), str(path)), Scene)
    except msgspec.ValidationError as error:
        raise CallerError(f"{path} is no scene: {error}") from error
    for step in scene.steps:
        if sum(verb is not None for verb in (step.create, step.label, step.debug)) != 1:
            raise CallerError(f"{path}: step {step.asked!r} needs exactly one of create, label, debug")
    return scene


def read_scenes(directory: Path = SCENES) -> list[Scene]:
    """Read every scene of a directory in the order of the file names."""
    return [read_scene(path) for path in sorted(directory.glob("*.yaml"))]
