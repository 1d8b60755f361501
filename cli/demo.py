"""`gpufence demo`: a cluster on this machine, real pods, a real webhook over TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from sandbox.cluster import Cluster
    from sandbox.runner import Outcome

_MORE_CHANGES = 3  # changes told per pod before the rest becomes a count


def demo(
    *,
    once: Annotated[
        bool, typer.Option("--once", help="End after the scenes; exit 0 only if all came out as expected.")
    ] = False,
    port: Annotated[
        int, typer.Option(help="Port of the API server on loopback; 0 takes a free one.", min=0, max=65535)
    ] = 0,
) -> None:
    """Run a small cluster on loopback and show what the webhook makes of real pods.

    Starts an API server that does what kube-apiserver does around admission, and the webhook beside it, joined over
    TLS. Plays the scenes, then stays up for pods of your own until Ctrl-C.
    """
    import asyncio
    import tempfile
    from pathlib import Path

    from rich.console import Console

    from serve import logs

    logs.configure("error", "console")
    console = Console()
    with tempfile.TemporaryDirectory(prefix="gpufence-demo-") as directory:
        unmet = asyncio.run(_demo(Path(directory), console, once=once, port=port))
    raise typer.Exit(1 if unmet else 0)


async def _demo(directory: Path, console: Console, *, once: bool, port: int) -> int:
    """Play all scenes; return how many steps did not come out as expected."""
    from sandbox.cluster import cluster
    from sandbox.runner import play
    from sandbox.scene import WORLD, read_scenes

    scenes = read_scenes()
    async with cluster(directory, WORLD / "policy.yaml", WORLD / "namespaces.yaml", port=port) as running:
        console.print(f"API server  {running.url}\nwebhook     {running.webhook_url}", highlight=False)
        outcomes = [(scene.title, await play(scene, running)) for scene in scenes]
        for title, steps in outcomes:
            _print_scene(console, title, steps)
        steps = [outcome for _, found in outcomes for outcome in found]
        unmet = sum(bool(outcome.differences) for outcome in steps)
        denied = sum(not outcome.allowed for outcome in steps)
        told = f"{len(steps)} requests, {denied} denied, {len(steps) - denied} allowed; "
        told += f"{unmet} not as expected" if unmet else "all as expected"
        console.print(f"\n{told}", style="bold red" if unmet else "bold green", highlight=False)
        if not once:
            _invite(console, directory, running)
            await _until_told()
            console.print("\nThe cluster is gone.")
    return unmet


async def _until_told() -> None:
    """Wait for SIGINT or SIGTERM, both of which leave nothing behind."""
    import asyncio
    import signal

    told = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    await told.wait()


def _print_scene(console: Console, title: str, outcomes: list[Outcome]) -> None:
    from rich.markup import escape
    from rich.table import Table

    console.print(f"\n[bold]{escape(title)}[/bold]")
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(width=30)
    table.add_column(width=7)
    table.add_column(overflow="fold")
    for outcome in outcomes:
        verdict = "[green]allowed[/green]" if outcome.allowed else "[red]denied[/red]"
        table.add_row(escape(outcome.step.asked), verdict, escape("\n".join(_why(outcome))))
        for difference in outcome.differences:
            table.add_row("", "[bold red]UNMET[/bold red]", escape(difference))
    console.print(table, highlight=False)


def _why(outcome: Outcome) -> list[str]:
    """Return what changed, what was warned about, and for a denial its reasons without the fixes."""
    if not outcome.allowed:
        reasons = [line for line in outcome.message.splitlines() if line.startswith("[")]
        return [line.partition(" (at ")[0] for line in reasons] or [outcome.message]
    changes = [_change(operation, outcome.pod) for operation in outcome.changed]
    changes = [change for change in changes if change]
    lines = changes[:_MORE_CHANGES]
    if len(changes) > _MORE_CHANGES:
        lines.append(f"and {len(changes) - _MORE_CHANGES} more changes")
    lines += [f"warning: {text.partition(' - ')[2].strip(chr(34))}" for text in outcome.warnings]
    return lines or ["unchanged"]


def _change(operation: dict[str, Any], pod: dict[str, Any]) -> str:
    """Return one operation of a patch in a few words; nothing for the decision stamp, which every pod gets."""
    path, value = operation["path"].split("/")[1:], operation.get("value")
    if path[:2] == ["metadata", "annotations"]:
        return ""
    if path[:2] == ["metadata", "labels"]:
        values = value if isinstance(value, dict) else {path[2].replace("~1", "/"): value}
        return "\n".join(f"{key}={text}" for key, text in values.items())
    container = pod["spec"][path[1]][int(path[2])]["name"]
    if operation["op"] == "remove":
        return f"{container}: its own visibility variable removed"
    entries: list[Any] = value if isinstance(value, list) else [value]
    return f"{container}: " + ", ".join(f"{entry['name']}={entry['value']}" for entry in entries)


def _invite(console: Console, directory: Path, running: Cluster) -> None:
    import shutil
    import sys

    from sandbox.scene import WORLD

    command = f"{sys.argv[0]} check --policy {directory}/policy.yaml --namespaces {directory}/namespaces.yaml"
    for name in ("policy.yaml", "namespaces.yaml"):
        shutil.copy(WORLD / name, directory)
    console.print(
        "\nThe cluster stays up until Ctrl-C. In another terminal, send a pod of your own:\n\n"
        f"  export KUBECONFIG={running.kubeconfig}\n"
        "  kubectl create --validate=false -n vision -f pod.yaml\n"
        "  kubectl get pods -A\n\n"
        "(--validate=false: the cluster has no schemas. It runs no controllers and no\n"
        "containers: a pod stays Pending, a Deployment makes none.) Without kubectl, as JSON:\n\n"
        f"  curl --cacert {running.ca} -H 'Content-Type: application/json' \\\n"
        f"    --data @pod.json {running.url}/api/v1/namespaces/vision/pods\n\n"
        "The same answer without any cluster:\n\n"
        f"  {command} \\\n    --namespace vision -f pod.yaml",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
