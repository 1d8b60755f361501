"""Structured logs on stderr, one line per event, without values of environment variables.

Stdout is left to what other programs read (the ready line). Nothing here or elsewhere logs a pod, a patch or
a request body; two ways in which a value could still slip into a line are closed here: traceback frames are
rendered without local variables, and the keys in WITHHELD are replaced.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Literal

import structlog

from serve.faults import describe_fault

if TYPE_CHECKING:
    from structlog.typing import EventDict, FilteringBoundLogger, Processor

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["json", "console"]

WITHHELD = frozenset({"body", "env", "object", "old_object", "patch", "pod", "review"})
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(level: Level, form: Format, worker: int | None = None) -> None:
    """Set up the logs of this process; call it once, before the first line is logged.

    `worker` is the process id where several write to the same place.
    """
    named = [] if worker is None else [_named(worker)]
    structlog.configure(
        processors=[*named, *_processors(form)],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,  # tests configure more than once
    )
    # Library lines below "warning" are for those who debug the library.
    logging.getLogger().handlers[:] = [_Library(logging.WARNING)]


def logger(name: str) -> FilteringBoundLogger:
    """Return the logger of a part, which is named in each of its lines."""
    bound: FilteringBoundLogger = structlog.get_logger(part=name)
    return bound


class _Library(logging.Handler):
    """Turns what libraries log into lines of ours.

    The text of an error is left out: aiohttp quotes the bytes that it could not parse, and after a wrong
    Content-Length these are the middle of a pod.
    """

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        fault = {"fault": describe_fault(error)} if error else {}
        level = "error" if record.levelno >= logging.ERROR else "warning"
        getattr(logger(record.name), level)(record.getMessage(), **fault)


def _processors(form: Format) -> list[Processor]:
    shared: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _withhold,
    ]
    if form == "console":
        plain = structlog.dev.plain_traceback
        return [*shared, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]
    # show_locals is on by default and would print the pod that a function was called with.
    frames = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
    return [*shared, structlog.processors.ExceptionRenderer(frames), structlog.processors.JSONRenderer()]


def _named(worker: int) -> Processor:
    def name(_logger: object, _method: str, event: EventDict) -> EventDict:
        return {**event, "worker": worker}

    return name


def _withhold(_logger: object, _method: str, event: EventDict) -> EventDict:
    for key in WITHHELD.intersection(event):
        event[key] = "[withheld]"
    return event
