"""`gpufence policy`: the GpuPolicy, as a file."""

from __future__ import annotations

import textwrap
from pathlib import Path  # noqa: TC003 - typer reads the annotations at run time
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cli.policy_file import Located, PolicyFile
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
    from policy.load import effective, load_policy

    if file is None:
        loaded, document = load_policy(DEFAULT_DOCUMENT), DEFAULT_DOCUMENT
    else:
        read, loaded = _opened(file)
        document = read.value
        _report(file, read.located(loaded.warnings), "warning")
    typer.echo(f"# The policy in force, version {loaded.policy.version}. `# default`: not set in the file.")
    typer.echo("\n".join(_marked(effective(document), document if file else {})))


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="The policy.")],
) -> None:
    """Name everything that is wrong with a policy, with its line, and every exception that is over.

    Exit status: 0 the policy can be used (there may be warnings); 2 it cannot.
    """
    from datetime import UTC, datetime

    from cli.expired import expiry_warnings

    read, loaded = _opened(file)
    found = loaded.policy
    over = expiry_warnings(found, datetime.now(UTC))
    warnings = read.located((*loaded.warnings, *over))
    _report(file, warnings, "warning")
    enforcement = "enforced" if found.enforce else "audited only"
    typer.echo(
        f"{file}: valid, version {found.version}: profile {found.profile}, {enforcement},"
        f" {_counts(found, len(over))}."
    )
    _tell_labels(found)


@app.command()
def crd() -> None:
    """Print the CustomResourceDefinition of GpuPolicy, for `kubectl apply -f -`."""
    from policy.crd import crd_yaml

    typer.echo(crd_yaml(), nl=False)


def _opened(file: Path) -> tuple[PolicyFile, Loaded]:
    """Read a policy; where it cannot be used, report every problem and exit with status 2."""
    from cli.policy_file import UNUSABLE, open_policy

    opened = open_policy(file)
    if opened.loaded is None:
        _report(file, opened.problems, "problem")
        raise typer.Exit(UNUSABLE)
    return opened, opened.loaded


def _report(file: Path, found: Sequence[Located], what: str) -> None:
    """Print the findings on standard error under the name of the file, and their number."""
    from cli.policy_file import in_words
    from cli.terminal import clean

    if not found:
        return
    typer.echo(f"{clean(str(file))}:", err=True)
    for each in found:
        typer.echo(_wrapped(in_words(each, "warning: " if what == "warning" else "")), err=True)
    typer.echo(f"{_counted(len(found), what)}.", err=True)


def _wrapped(text: str) -> str:
    from cli.terminal import clean, console, prose_width

    return textwrap.fill(
        clean(text),
        prose_width(console()),
        initial_indent="  ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _tell_labels(found: Policy) -> None:
    """Print under which label the pods of a team are found, where it is not the name of the team."""
    from policy.model import TEAM_LABEL

    for team in found.teams:
        if team.label != team.name:
            typer.echo(_wrapped(f"Pods of team {team.name} carry the label {TEAM_LABEL}={team.label}."))


def _counts(found: Policy, over: int) -> str:
    teams, exemptions = _counted(len(found.teams), "team"), _counted(len(found.exemptions), "exemption")
    expired = f" ({over} expired)" if over else ""
    return f"{teams}, {exemptions}, {_counted(len(found.exceptions), 'exception')}{expired}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


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
