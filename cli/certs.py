"""`gpufence certs`: the certificate authority and serving certificate of the webhook."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations at run time
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from datetime import datetime

    from certs.authority import KeyPair

app = typer.Typer(no_args_is_help=True)

DEFAULT_DNS = ("localhost", "gpufence-webhook.gpufence-system.svc")
DEFAULT_IPS = ("127.0.0.1", "::1")


@app.callback()
def certs() -> None:
    """Issue the certificates that the API server checks when it calls the webhook."""


@app.command()
def init(
    directory: Annotated[Path, typer.Argument(help="Where tls.crt, tls.key and ca.crt go.")],
    *,
    dns: Annotated[list[str] | None, typer.Option(help="A DNS name to serve; repeat for several.")] = None,
    ip: Annotated[list[str] | None, typer.Option(help="An IP address to serve; repeat for several.")] = None,
    days: Annotated[
        int, typer.Option(help="How long the serving certificate is valid.", min=1, max=3650)
    ] = 365,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an authority that is already there.")
    ] = False,
    keep_ca_key: Annotated[
        bool,
        typer.Option(
            "--keep-ca-key", help="Also write ca.key, so that a later run renews with the same authority."
        ),
    ] = False,
) -> None:
    """Make an authority and a serving certificate signed by it.

    Without --dns and --ip: localhost, 127.0.0.1, ::1 and gpufence-webhook.gpufence-system.svc. The
    authority's key is thrown away: whoever holds it can pose as the webhook to the API server, and a new
    authority costs one command. With --keep-ca-key it is kept, and later runs of `init` issue from it.
    """
    from datetime import UTC, datetime

    from certs.authority import ServingNames, issue_serving
    from certs.store import write
    from policy.errors import GpufenceError

    given = bool(dns or ip)
    names = (
        ServingNames(tuple(dns or ()), tuple(ip or ())) if given else ServingNames(DEFAULT_DNS, DEFAULT_IPS)
    )
    now = datetime.now(UTC)
    try:
        authority, kept = _authority(directory, now, force=force)
        leaf = issue_serving(authority, names, now, days)
        write(directory, authority, leaf, keep_ca_key=keep_ca_key or kept, replace_ca=force)
    except GpufenceError as error:
        typer.echo(f"gpufence certs init: {error}", err=True)
        raise typer.Exit(2) from error
    typer.echo(f"Wrote {directory}/tls.crt, tls.key and ca.crt for {', '.join((*names.dns, *names.ips))}.")
    typer.echo(f"Valid until {leaf.certificate.not_valid_after_utc:%Y-%m-%d}.")
    typer.echo("The caBundle of a webhook configuration is ca.crt in base64.")


def _authority(directory: Path, now: datetime, *, force: bool) -> tuple[KeyPair, bool]:
    """Return the authority to issue from, and whether it is one that the directory keeps."""
    from certs.authority import AUTHORITY_DAYS, new_authority
    from certs.store import read_authority

    kept = None if force else read_authority(directory)
    # One day more than the longest leaf, so that `--days 3650` is possible.
    return kept or new_authority("gpufence webhook CA", now, AUTHORITY_DAYS + 1), kept is not None
