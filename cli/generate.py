"""Write the files that are made from code: `python -m cli.generate`, or with `--check` name the stale ones.

Generated text is committed, so that it is reviewed like any other and can be applied without gpufence. `make
check` runs the check.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cli.generated.command_reference import command_reference
from cli.generated.configmap_policy import configmap_policy
from cli.generated.match_conditions import mutating_conditions, validating_conditions
from cli.generated.record_reference import record_page, record_schema
from cli.generated.rule_reference import rule_reference
from policy.crd import crd_yaml
from serve.settings_page import settings_page
from webhook.settings import WebhookSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).resolve().parent.parent

FILES: dict[str, Callable[[], str]] = {
    "docs/rules.md": rule_reference,
    "docs/cli.md": command_reference,
    "docs/records.md": record_page,
    "docs/record.schema.json": record_schema,
    "docs/settings.md": lambda: settings_page({"gpufence webhook run": WebhookSettings}),
    "manifests/crds/gpufence.io_gpupolicies.yaml": crd_yaml,
    "manifests/admission-policies/reserved-configmap-keys.yaml": configmap_policy,
    "manifests/kustomize/components/match-conditions/mutating.yaml": mutating_conditions,
    "manifests/kustomize/components/match-conditions/validating.yaml": validating_conditions,
}


def stale(root: Path) -> list[str]:
    """Return the generated files that differ from what the code makes now, or are missing."""
    return [name for name, make in FILES.items() if _text(root / name) != make()]


def write(root: Path) -> list[str]:
    """Write the stale files anew and return their names."""
    names = stale(root)
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(FILES[name](), encoding="utf-8")
    return names


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Run the command; return the exit status: 1 where the check found a stale file, 2 for wrong usage."""
    if list(arguments) not in ([], ["--check"]):
        sys.stderr.write("usage: python -m cli.generate [--check]\n")
        return 2
    if not arguments:
        for name in write(root):
            sys.stdout.write(f"wrote {name}\n")
        return 0
    names = stale(root)
    for name in names:
        sys.stderr.write(f"{name} is stale. Fix: make generate\n")
    return 1 if names else 0


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
