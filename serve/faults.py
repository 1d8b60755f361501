"""Errors, described without what they failed on."""

from __future__ import annotations

import traceback

from policy.errors import GpufenceError


def describe_fault(error: BaseException) -> str:
    """Describe an error for logs and answers.

    An error raised on purpose has a message written for people. Of any other only its type and place are
    told: its text may quote what it failed on, such as the value of an environment variable.
    """
    if isinstance(error, GpufenceError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    place = f" at {'/'.join(frames[0].filename.split('/')[-2:])}:{frames[0].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"
