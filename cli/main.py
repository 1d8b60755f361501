"""The tree of commands. What is heavy is imported inside the commands: `gpufence --help` stays quick.

Exit status of every command: 0 done; 1 the answer is no (something is denied, a check found a difference);
2 what was given cannot be used; 70 (EX_SOFTWARE of sysexits.h) a bug of gpufence itself.
"""

from __future__ import annotations

import sys
from pathlib import PurePath
from typing import Annotated, NoReturn

import typer

from cli import certs, policy, webhook
from cli.check.command import check
from cli.demo import demo
from cli.rules import rules
from cli.terminal import clean

EXIT_UNUSABLE = 2
EXIT_BUG = 70

app = typer.Typer(
    name="gpufence",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(check)
app.command()(rules)
app.add_typer(policy.app, name="policy")
app.add_typer(webhook.app, name="webhook")
app.add_typer(certs.app, name="certs")
app.command()(demo)


def _print_version(wanted: bool) -> None:
    if wanted:
        from cli.version import version

        typer.echo(f"gpufence {version()}")
        raise typer.Exit


@app.callback()
def gpufence(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Keep every process in a Kubernetes cluster on the GPU it was given, and record who did what."""


def main() -> NoReturn:
    """Run the command line, as `gpufence` or as the kubectl plugin `kubectl gpufence`."""
    from policy.errors import GpufenceError, InternalError, PolicyError

    name = program_name(sys.argv[0])
    try:
        app(prog_name=name)
    except InternalError as error:
        fail(f"{name}: {error}. This is a bug of gpufence: please report it.", EXIT_BUG)
    except PolicyError as error:
        fail("\n".join(f"{name}: {problem}" for problem in error.problems), EXIT_UNUSABLE)
    except GpufenceError as error:
        fail(f"{name}: {error}", EXIT_UNUSABLE)
    except Exception as error:  # noqa: BLE001 - the last line of defence: nobody should meet a traceback
        fail(f"{name}: {_told(error)}. This is a bug of gpufence: please report it.", EXIT_BUG)
    sys.exit()


def program_name(argv0: str) -> str:
    """Return what the user typed: kubectl runs a plugin as `kubectl-gpufence`."""
    return "kubectl gpufence" if PurePath(argv0).name.startswith("kubectl-gpufence") else "gpufence"


def fail(message: str, code: int) -> NoReturn:
    """End the process with a message on standard error."""
    typer.echo("\n".join(clean(line) for line in message.split("\n")), err=True)
    sys.exit(code)


def _told(error: Exception) -> str:
    """Describe an unexpected error by its type, text and place, which a report needs."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
