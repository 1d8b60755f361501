"""`gpufence webhook`: the admission webhook as a long-running process."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations at run time
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable

app = typer.Typer(no_args_is_help=True)

_UNUSABLE = 2


@app.callback()
def webhook() -> None:
    """Decide about pods as the Kubernetes API server creates them."""


@app.command()
def run(
    config: Annotated[
        Path | None,
        typer.Option(
            help="YAML file with the settings of docs/settings.md. GPUFENCE_* variables override it."
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Processes that answer; overrides `workers` of the settings.", min=1, max=64),
    ] = None,
) -> None:
    """Answer AdmissionReviews over TLS at /mutate and /validate until SIGTERM; SIGHUP reads the files again.

    Prints `gpufence webhook ready on URL` on stdout once it answers; its log and its records go to stderr. Exit
    status 2: settings, policy, namespaces or certificates cannot be used, and every problem is on stderr.
    """
    import os
    import signal

    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # its default ends a process; until the handler is there

    from policy.errors import CallerError, WorldError
    from serve.settings import SettingsError, load_settings
    from webhook.inputs import StartError
    from webhook.process import run as run_webhook
    from webhook.settings import WebhookSettings, conflicts

    try:
        given = {} if workers is None else {"GPUFENCE_WORKERS": str(workers)}
        settings = load_settings(WebhookSettings, config, {**os.environ, **given}, conflicts)
        run_webhook(settings, lambda url: typer.echo(f"gpufence webhook ready on {url}"))
    except (SettingsError, StartError) as error:
        raise _unusable(error.problems) from error
    except (CallerError, WorldError) as error:
        raise _unusable([error]) from error


def _unusable(problems: Iterable[object]) -> typer.Exit:
    for problem in problems:
        typer.echo(f"gpufence webhook: {problem}", err=True)
    return typer.Exit(_UNUSABLE)
