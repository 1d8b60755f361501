"""`gpufence check`: what would be decided about manifests, without a cluster."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path  # noqa: TC003 - typer reads the annotations at run time
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cli.check.judge import Asked
    from cli.check.results import Judged, Problem, Summary

_UNUSABLE = 2


class Format(StrEnum):
    """Forms of the output."""

    text = "text"
    json = "json"
    sarif = "sarif"
    junit = "junit"
    review = "review"


class EndpointName(StrEnum):
    """Endpoints of the webhook."""

    mutate = "mutate"
    validate = "validate"


def check(
    *,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE|DIR|-",
            help="YAML or JSON manifests, Lists, saved AdmissionReviews (.jsonl: one per line). A directory "
            "is read at every depth, - is standard input. Repeat for several.",
        ),
    ] = None,
    review: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|-", help="A saved AdmissionReview; with -o review the server's answer to it."
        ),
    ] = None,
    endpoint: Annotated[
        EndpointName | None,
        typer.Option(
            help="Endpoint that is asked about AdmissionReviews.", show_default="the one that decides"
        ),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with the GpuPolicy.", show_default="the built-in policy"),
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NS", help="Namespace of objects that name none.")
    ] = "default",
    namespaces: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Namespace objects; their labels are what selectors of the policy match."
        ),
    ] = None,
    user: Annotated[str, typer.Option(metavar="USER", help="User who creates the objects.")] = "",
    group: Annotated[
        list[str] | None, typer.Option(metavar="GROUP", help="Group of the user; repeat for several.")
    ] = None,
    output: Annotated[Format, typer.Option("--output", "-o", help="Form of the output.")] = Format.text,
    everything: Annotated[
        bool, typer.Option("--all", help="In text, show every result by itself however many there are.")
    ] = False,
) -> None:
    """Say which pods would be denied, fixed or warned about, why, and how to mend them.

    Judges pods and the pod templates within workloads, those of custom kinds included. Workloads are judged
    as the pods that their controller will create. Nothing is sent anywhere.

    Exit status: 0 everything is allowed; 1 something is denied; 2 an input cannot be used (each is named on
    standard error; the rest is still judged and printed).

    Examples: `gpufence check -f deploy/`, `helm template . | gpufence check -f - -n vision`,
    `kubectl get pods -A -o json | gpufence check -f -`.
    """
    from msgspec.structs import replace

    from cli.check.setup import asked

    if not files and review is None:
        raise typer.BadParameter("give -f FILE, or --review FILE", param_hint="--file")
    if output is Format.review and (review is None or files):
        raise typer.BadParameter("-o review answers a --review FILE, and nothing else", param_hint="--output")
    question = asked(
        policy=policy,
        namespaces=namespaces,
        namespace=namespace,
        user=user,
        groups=tuple(group or ()),
        tell=_tell,
    )
    if endpoint is not None:
        question = replace(question, endpoint=endpoint.value)
    if output is Format.review:
        raise typer.Exit(_answer(review or "-", question))
    raise typer.Exit(_check([*(files or ()), *([review] if review else ())], question, output, everything))


def _check(names: list[str], question: Asked, output: Format, everything: bool) -> int:
    """Judge everything and write it; return the exit status."""
    from cli.check.results import Summary
    from cli.check.run import counted, outcomes

    summary = Summary()
    found = _told(counted(outcomes(names, question), summary))
    _write(found, summary, output, everything)
    return summary.exit_code


def _told(found: Iterable[Judged | Problem]) -> Iterator[Judged | Problem]:
    """Pass everything on, and name each problem on standard error, so that standard output stays pure."""
    from cli.check.results import Problem

    for outcome in found:
        if isinstance(outcome, Problem):
            _tell(str(outcome))
        yield outcome


def _write(found: Iterable[Judged | Problem], summary: Summary, output: Format, everything: bool) -> None:
    if output is Format.text:
        from cli.check.output_text import TextOutput
        from cli.terminal import console, prose_width, show

        terminal = console()
        TextOutput(show(terminal), prose_width(terminal), everything=everything).write(found, summary)
        return
    from cli.check import output_json, output_junit, output_sarif

    writers = {Format.json: output_json, Format.sarif: output_sarif, Format.junit: output_junit}
    out = typer.get_binary_stream("stdout")
    writers[output].write(found, summary, out)
    out.flush()


def _answer(name: str, question: Asked) -> int:
    from cli.check.answers import answers
    from cli.check.results import Problem

    code = 0
    out = typer.get_binary_stream("stdout")
    for answered in answers(name, question):
        if isinstance(answered, Problem):
            _tell(str(answered))
            code = _UNUSABLE
        else:
            out.write(answered.body + b"\n")
            code = max(code, 0 if answered.allowed else 1)
    out.flush()
    return code


def _tell(message: str) -> None:
    from cli.terminal import clean

    typer.echo(f"gpufence check: {clean(message)}", err=True)
