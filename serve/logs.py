"""Structured logs on stderr, one line per event, without values of environment variables.

Stdout is left to what other programs read (the ready line). Nothing here or elsewhere logs a pod, a patch or
a request body; two ways in which a value could still slip into a line are closed here: traceback frames are
rendered without local variables, and the keys in WITHHELD are replaced.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, TextIO, cast

import structlog

from serve.faults import describe_fault

if TYPE_CHECKING:
    from structlog.typing import EventDict, FilteringBoundLogger, Processor

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["json", "console"]

WITHHELD = frozenset({"body", "env", "object", "old_object", "patch", "pod", "review"})
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
# What aiohttp raises and logs as an error where a client sent no HTTP, or a body that does not decode. By name, because
# not every process that logs has aiohttp loaded.
_BROKEN_HTTP = "aiohttp.http_exceptions"
_BROKEN_BODY = "aiohttp.web_protocol.RequestPayloadError"


def configure(level: Level, form: Format, worker: int | None = None) -> None:
    """Set up the logs of this process; call it once, before the first line is logged.

    `worker` is the process id where several write to the same place.
    """
    named = [] if worker is None else [_named(worker)]
    structlog.configure(
        processors=[*named, *_processors(form)],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", _Bearing(sys.stderr))),
        cache_logger_on_first_use=False,  # tests configure more than once
    )
    # Library lines below "warning" are for those who debug the library.
    logging.getLogger().handlers[:] = [_Library(logging.WARNING)]


def logger(name: str) -> FilteringBoundLogger:
    """Return the logger of a part, which is named in each of its lines."""
    bound: FilteringBoundLogger = structlog.get_logger(part=name)
    return bound


class _Bearing:
    """A stream whose failures are borne: a full disk, or a reader of the log that went away, must not end a process."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream  # None where the process was started without stderr

    def write(self, text: str) -> None:
        """Write, or lose the line."""
        if self._stream is not None:
            with suppress(OSError, ValueError):  # ValueError: the stream was closed
                self._stream.write(text)

    def flush(self) -> None:
        """Flush, or lose what was not written."""
        if self._stream is not None:
            with suppress(OSError, ValueError):
                self._stream.flush()


class _Library(logging.Handler):
    """Turns what libraries log into lines of ours.

    The text of an error is left out: aiohttp quotes the bytes that it could not parse, and after a wrong
    Content-Length these are the middle of a pod.
    """

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        fault = {"fault": describe_fault(error)} if error else {}
        ours = record.levelno >= logging.ERROR and not _sent_broken(error)
        level = "error" if ours else "warning"
        getattr(logger(record.name), level)(record.getMessage(), **fault)


def _sent_broken(error: BaseException | None) -> bool:
    """Whether the client is to blame: it gets 400, or its connection is closed, and nothing of ours is wrong."""
    kind = type(error)
    return kind.__module__ == _BROKEN_HTTP or f"{kind.__module__}.{kind.__qualname__}" == _BROKEN_BODY


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
