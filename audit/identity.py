"""Ids and times of records. Pure: the time and the random bytes come in."""

from __future__ import annotations

from datetime import UTC, datetime

RANDOM_BYTES = 8
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def record_id(at: datetime, random: bytes) -> str:
    """Return a UUIDv7 (RFC 9562): ids sort by time, to the microsecond.

    `at` is aware; `random` has 8 bytes, of which 62 bits are used: two records of one microsecond collide once in
    4 * 10^18. The 12 bits behind the milliseconds hold their fraction (RFC 9562, section 6.2, method 3).
    """
    if len(random) != RANDOM_BYTES:
        raise ValueError(f"{RANDOM_BYTES} random bytes are needed, {len(random)} came")
    micros = _micros(at)
    millis, rest = divmod(micros, 1000)
    fraction = rest * 4096 // 1000
    low = int.from_bytes(random) & (1 << 62) - 1
    digits = f"{millis << 80 | 0x7 << 76 | fraction << 64 | 0b10 << 62 | low:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def timestamp(at: datetime) -> str:
    """Return RFC 3339 in UTC with six digits of a second; ValueError for a time without a zone."""
    return _utc(at).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def _micros(at: datetime) -> int:
    since = _utc(at) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _utc(at: datetime) -> datetime:
    if at.tzinfo is UTC:  # nearly always
        return at
    if at.tzinfo is None:
        raise ValueError("a time without a zone is no point in time")
    return at.astimezone(UTC)
