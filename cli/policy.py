"""`gpufence policy`: the GpuPolicy, as a file."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations at run time
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.load import Loaded
    from policy.model import Policy

app = typer.Typer(no_args_is_help=True)


@app.callback()
def policy() -> None:
    """Look at a GpuPolicy before a cluster does."""


@app.command()
def show(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="The policy; without it, the built-in one.")
    ] = None,
) -> None:
    """Print the policy in force, with every default written out and marked. The output loads again."""
    from policy.default import DEFAULT_DOCUMENT
    from policy.load import effective

    loaded = _read(file)
    document = DEFAULT_DOCUMENT if file is None else _document(file)
    typer.echo(f"# The policy in force, version {loaded.policy.version}. `# default`: not set in the file.")
    typer.echo("\n".join(_marked(effective(document), document if file else {})))


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="The policy.")],
) -> None:
    """Name everything that is wrong with a policy, and every exception that is over.

    Exit status: 0 the policy can be used (there may be warnings); 2 it cannot.
    """
    from datetime import UTC, datetime

    from cli.expired import expiry_notes

    loaded = _read(file)
    for note in expiry_notes(loaded.policy, datetime.now(UTC)):
        _tell(f"{file}: warning: {note}")
    found = loaded.policy
    enforcement = "enforced" if found.enforce else "audited only"
    typer.echo(
        f"{file}: valid, version {found.version}: profile {found.profile}, {enforcement}, {_counts(found)}."
    )


@app.command()
def crd() -> None:
    """Print the CustomResourceDefinition of GpuPolicy, for `kubectl apply -f -`."""
    from policy.crd import crd_yaml

    typer.echo(crd_yaml(), nl=False)


def _read(file: Path | None) -> Loaded:
    from cli import policy_file

    return policy_file.read(file, _tell)


def _document(file: Path) -> Any:
    from serve.documents import parse_document, read_text

    return parse_document(read_text(file), str(file))


def _tell(message: str) -> None:
    from cli.terminal import clean

    typer.echo(f"gpufence policy: {clean(message)}", err=True)


def _counts(found: Policy) -> str:
    counts = {
        "team": len(found.teams),
        "exemption": len(found.exemptions),
        "exception": len(found.exceptions),
    }
    return ", ".join(f"{count} {what}{'' if count == 1 else 's'}" for what, count in counts.items())


def _marked(document: dict[str, Any], given: dict[str, Any]) -> Iterator[str]:
    """Yield the YAML of a policy, with `# default` behind each field that the given document does not set."""
    spec: dict[str, Any] = document["spec"]
    set_by_file: dict[str, Any] = given.get("spec") or {}
    yield from _lines({key: value for key, value in document.items() if key != "spec"}, set(document), 0)
    yield "spec:"
    for field, value in spec.items():
        if isinstance(value, dict) and field in set_by_file:
            yield f"  {field}:"
            yield from _lines(value, set(set_by_file[field] or {}), 4)
        else:
            yield from _lines({field: value}, set(set_by_file), 2)


def _lines(fields: dict[str, Any], given: set[str], indent: int) -> Iterator[str]:
    from cli.check.diff import as_yaml

    for field, value in fields.items():
        first, *rest = as_yaml({field: value}).splitlines()
        yield " " * indent + first + ("" if field in given else "  # default")
        yield from (" " * indent + line for line in rest)
