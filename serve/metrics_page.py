"""The documentation of metrics, made from the metrics. A test compares docs/metrics.md with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from serve.metrics import Label, Spec

_HEAD = """# Metrics

Written from the code (`serve/metrics_page.py`); do not edit.

`GET /metrics` answers in the Prometheus text format where a process has the setting `metricsListen`. With several
workers any of them answers for all: counters and histograms are sums, what dead workers counted stays in them, and
gauges are of those that live. Several workers keep their values in files where temporary files go (`TMPDIR`, else
`/tmp`), about 256 KiB for each: where the root of the container is read-only, mount an `emptyDir` of medium `Memory`
there.

No label has a value that a tenant writes or chooses, so that nobody can fill the memory of Prometheus by creating
pods: namespaces, users, teams and images are in the log. Every other series is there from the first scrape on, but
for what is not known yet: that is no series, and never a 0.

Each alert is an expression that is true while somebody should look. Give it a `for:` of some minutes.
"""


def metrics_page(processes: Mapping[str, Sequence[Spec]]) -> str:
    """Return the page for the metrics of each process, keyed by its command."""
    parts = [_HEAD]
    for command, specs in processes.items():
        parts.append(f"\n## `{command}`\n\n| metric | type | labels |\n|---|---|---|\n")
        parts += [f"| [`{spec.name}`](#{spec.name}) | {spec.kind} | {_names(spec)} |\n" for spec in specs]
        parts += ["\n".join(_section(spec)) for spec in specs]
    return "".join(parts)


def _names(spec: Spec) -> str:
    return ", ".join(f"`{name}`" for name in spec.label_names)


def _section(spec: Spec) -> Iterator[str]:
    yield f"\n### `{spec.name}`\n"
    yield f"{spec.kind.capitalize()}. {spec.help} {spec.notes}".rstrip() + "\n"
    if spec.labels:
        yield from (f"- `{label.name}`: {_values(label)}" for label in spec.labels)
        yield ""
    if spec.buckets:
        yield f"Buckets up to {', '.join(f'{bound:g}' for bound in spec.buckets)}.\n"
    if spec.kind == "gauge":
        yield f"Of several workers: {_MERGED[spec.merge]}.\n"
    if spec.alert is not None:
        yield f"{spec.alert.text}\n\n```promql\n{spec.alert.expression}\n```\n"


_MERGED = {"livesum": "the sum", "livemin": "the smallest", "livemax": "the largest"}


def _values(label: Label) -> str:
    values = ", ".join(f"`{value}`" for value in label.values)
    return ": ".join(part for part in (label.text, values) if part)
