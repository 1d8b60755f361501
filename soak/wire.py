"""Broken HTTP and broken TLS, one connection a case.

Pure, as `reviews`. The forms of request smuggling are those of RFC 9112, sections 6.1, 6.3 and 11.2, and what servers
were found to accept beside them: a message whose end two readers may see in two places must be refused.
"""

from __future__ import annotations

import gzip
import json
import zlib
from typing import TYPE_CHECKING, Literal, NamedTuple

from soak.reviews import good_review

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

End = Literal["wait", "brief", "half", "leave", "abort"]
Layer = Literal["tls", "cut", "hello", "plain"]
Headers = tuple[tuple[bytes, bytes], ...]

_JSON: Headers = ((b"Content-Type", b"application/json"),)
_HOST: Headers = ((b"Host", b"gpufence.gpufence.svc:443"),)
_BOMB = zlib.compress(b" " * (64 << 20), 9)  # 64 KB that become 64 MiB, over the 10 MiB of `maxBodyBytes`
_CHUNKED: Headers = ((b"Transfer-Encoding", b"chunked"),)


class WireCase(NamedTuple):
    """What is written on one connection, and which answers are right.

    `writes` are sent one after the other. Then: `wait` for `answers` answers or the end of the connection (`answers`
    is 2 where the server should close after the first); the same for a `brief` time, because the request may never
    end; say that nothing more comes (`half`) and read to the end; `leave` (close) or `abort` (reset) without reading.
    `layer`: `tls` is a whole session, `cut` ends within a record, `hello` within the handshake, `plain` has no TLS.
    `uids` are those of the reviews that may be answered with 200, in order; any other answer has one of `statuses`.
    """

    name: str
    writes: tuple[bytes, ...]
    statuses: frozenset[int] = frozenset({400})
    answers: int = 1
    end: End = "wait"
    layer: Layer = "tls"
    uids: tuple[str, ...] = ()

    @property
    def bodies(self) -> bool:
        """Whether the answers have the bodies whose lengths they state."""
        return not (self.writes and self.writes[0].startswith(b"HEAD "))


def wire_case(rng: Random) -> WireCase:
    """Return the next case, every third one in pieces."""
    case = rng.choice(_CASES)(rng)
    if case.layer != "tls" or len(case.writes) != 1 or rng.randrange(3):
        return case
    # A request whose head is well is handed on before the rest is seen to be broken: it waits for a body in vain.
    statuses = case.statuses | {408} if case.statuses else case.statuses
    return case._replace(writes=_pieces(case.writes[0], rng), statuses=statuses)


def request(
    body: bytes,
    headers: Headers = _JSON,
    *,
    line: bytes = b"POST /mutate HTTP/1.1",
    length: bytes | None = None,
    host: Headers = _HOST,
) -> bytes:
    """Return a request; `length` stands for Content-Length where it is not that of the body, empty for none."""
    size = str(len(body)).encode() if length is None else length
    lengths: Headers = ((b"Content-Length", size),) if length != b"" else ()
    head = b"".join(name + b": " + value + b"\r\n" for name, value in (*host, *headers, *lengths))
    return line + b"\r\n" + head + b"\r\n" + body


def good_body(uid: str = "u") -> bytes:
    """Return a review as bytes."""
    return json.dumps(good_review(uid)).encode()


def _chunks(body: bytes, size: int) -> bytes:
    parts = (body[at : at + size] for at in range(0, len(body), size))
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def _pieces(data: bytes, rng: Random, most: int = 12) -> tuple[bytes, ...]:
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(most)))
    return tuple(
        data[start:end] for start, end in zip((0, *cuts), (*cuts, len(data)), strict=True) if start < end
    )


def _good(rng: Random) -> WireCase:
    chunked = rng.random() < 0.5  # either, evenly
    body = good_body()
    whole = (
        request(_chunks(body, rng.choice((1, 100, 4096))), _JSON + _CHUNKED, length=b"")
        if chunked
        else request(body)
    )
    return WireCase("good, in pieces", _pieces(whole, rng), uids=("u",), statuses=frozenset())


def _pipelined(rng: Random) -> WireCase:
    uids = tuple(f"u{number}" for number in range(rng.choice((2, 5, 40))))
    data = b"".join(request(good_body(uid)) for uid in uids)
    return WireCase("pipelined", _pieces(data, rng), frozenset(), len(uids), uids=uids)


def _pipelined_then_broken(rng: Random) -> WireCase:
    uids = tuple(f"u{number}" for number in range(rng.choice((1, 3))))
    data = b"".join(request(good_body(uid)) for uid in uids) + rng.choice(
        (b"\0\0\0\r\n\r\n", b"POST\r\n\r\n")
    )
    return WireCase("pipelined, the last one broken", (data,), answers=len(uids) + 1, uids=uids)


def _pipelined_unread(rng: Random) -> WireCase:
    data = b"".join(request(good_body(f"u{number}")) for number in range(200))
    return WireCase("pipelined, unread", (data,), end=rng.choice(("leave", "abort")))


def _length_too_small(rng: Random) -> WireCase:
    body = good_body()
    wrong = str(rng.randrange(len(body) - 1)).encode()
    return WireCase("length too small", (request(body, length=wrong),), answers=2)


def _length_too_large(rng: Random) -> WireCase:
    body = good_body()
    wrong = str(len(body) + rng.choice((1, 10, 5_000_000))).encode()
    end: End = rng.choice(("wait", "half", "leave", "abort"))
    return WireCase("length too large", (request(body, length=wrong),), frozenset({400, 408}), end=end)


def _length_no_number(rng: Random) -> WireCase:
    wrong = rng.choice(
        (
            b"-1",
            b"+5",
            b"5, 5",
            b"5, 6",
            b"0x10",
            b"1e3",
            b"5;",
            b"5 5",
            b"\xb2",
            b"9" * 30,
            b"_5",
            b"5_0",
            b"\xd9\xa3",
        )
    )
    return WireCase(f"length {wrong!r}", (request(good_body(), length=wrong),), answers=2)


def _length_twice(rng: Random) -> WireCase:
    body = good_body()
    other = str(len(body) + rng.choice((-1, 0, 1))).encode()
    return WireCase("length twice", (request(body, ((b"Content-Length", other), *_JSON)),), answers=2)


def _over_the_limit(rng: Random) -> WireCase:
    wrong = rng.choice((b"10485761", b"999999999999", b"9223372036854775807"))
    return WireCase("length over the limit", (request(b"{", length=wrong),), frozenset({413}))


def _both_lengths(rng: Random) -> WireCase:
    """Content-Length and Transfer-Encoding: who believes which sees another second request."""
    inner = request(good_body("smuggled"))
    body = _chunks(good_body(), 100) + inner
    length = str(rng.choice((len(body), len(body) - len(inner), 4))).encode()
    headers = list(_JSON + _CHUNKED + ((b"Content-Length", length),))
    rng.shuffle(headers)
    return WireCase("length and chunks", (request(body, tuple(headers), length=b""),), answers=2)


def _odd_encoding(rng: Random) -> WireCase:
    name, value = rng.choice(
        (
            (b"Transfer-Encoding", b"xchunked"),
            (b"Transfer-Encoding", b"chunked, identity"),
            (b"Transfer-Encoding", b"chunked, chunked"),
            (b"Transfer-Encoding", b"identity, chunked, x"),
            (b"Transfer-Encoding", b'"chunked"'),
            (b"Transfer-Encoding", b"chunked\x0b"),
            (b"Transfer-Encoding", b"chunked\0"),
            (b"Transfer-Encoding ", b"chunked"),
            (b"Transfer-Encoding\t", b"chunked"),
            (b" Transfer-Encoding", b"chunked"),
            (b"Transfer\r-Encoding", b"chunked"),
            (b"X: y\rTransfer-Encoding", b"chunked"),
            (b"Transfer-Encoding", b"\r\n chunked"),
        )
    )
    body = _chunks(good_body(), 100)
    length = rng.choice((b"", str(len(body)).encode()))
    return WireCase(
        f"encoding {name!r} {value!r}", (request(body, (*_JSON, (name, value)), length=length),), answers=2
    )


def _encoding_in_1_0(_rng: Random) -> WireCase:
    """RFC 9112, 6.1: the framing of a 1.0 message with a Transfer-Encoding is faulty; never two answers."""
    data = request(_chunks(good_body(), 100), _JSON + _CHUNKED, line=b"POST /mutate HTTP/1.0", length=b"")
    return WireCase("chunks in HTTP/1.0", (data,), frozenset({400, 411, 501}), uids=("u",))


def _broken_chunks(rng: Random) -> WireCase:
    first = rng.choice(
        (
            b"-1\r\n{",
            b"0x5\r\n{",
            b"zz\r\n{",
            b"F" * 17 + b"\r\n{",
            b"\r\n{",
            b" 5\r\n{",
            b"5\n{....",
            b"1\r\n{}\r\n",
            b"5;" + b"e" * 100_000 + b"\r\n{",
            b"1\r\n{X\r\n",
            b"1\n{\n0\n\n",
            b"_1\r\n{",
            b"1;a\rb\r\n{",
            b"+1\r\n{",
        )
    )
    data = request(first + b"\r\n0\r\n\r\n", _JSON + _CHUNKED, length=b"")
    return WireCase(f"chunk {first[:20]!r}", (data,), frozenset({400, 408}), answers=2)


def _trailers(rng: Random) -> WireCase:
    fields = b"".join(b"X-%d: y\r\n" % number for number in range(rng.choice((1, 50, 5_000))))
    body = _chunks(good_body(), 1000)[:-2] + fields + b"\r\n"
    return WireCase("trailers", (request(body, _JSON + _CHUNKED, length=b""),), uids=("u",))


def _unended_chunks(rng: Random) -> WireCase:
    body = _chunks(good_body(), rng.choice((10, 1000)))
    data = request(body[: -rng.randrange(1, 12)], _JSON + _CHUNKED, length=b"")
    return WireCase(
        "unended chunks", (data,), frozenset({400, 408}), end=rng.choice(("wait", "half", "abort"))
    )


def _header_flood(rng: Random) -> WireCase:
    headers: Headers = rng.choice(
        (
            tuple((b"X-%d" % number, b"y") for number in range(5_000)),
            tuple((b"Cookie", b"a=b") for _ in range(500)),
            ((b"X", b"y" * 1_000_000),),
            ((b"X" * 100_000, b"y"),),
        )
    )
    return WireCase("header flood", (request(good_body(), _JSON + headers),), frozenset({400, 431}))


def _broken_header(rng: Random) -> WireCase:
    line = rng.choice(
        (
            b"no colon",
            b": no name",
            b"a b: c",
            b"X: a\0b",
            b"X\0: y",
            b"\xff: y",
            b"X: a\rb",
            b"(x): y",
            b"X\x7f: y",
        )
    )
    data = request(good_body()).replace(b"\r\nContent-Type", b"\r\n" + line + b"\r\nContent-Type", 1)
    return WireCase(f"header {line!r}", (data,))


def _hosts(rng: Random) -> WireCase:
    host: Headers = rng.choice(
        (
            (),
            _HOST + _HOST,
            ((b"Host", b""),),
            ((b"Host", b"[::1"),),
            ((b"Host", b"a@b/c?d"),),
            ((b"Host", b"\xff:x"),),
        )
    )
    return WireCase("host", (request(good_body(), host=host),), uids=("u",))


def _bare_line_feeds(rng: Random) -> WireCase:
    data = request(good_body())
    return WireCase(
        "line feeds",
        (data.replace(b"\r\n", rng.choice((b"\n", b"\r", b"\n\r")), rng.choice((1, 2, -1))),),
        end="brief",
        uids=("u",),
    )


def _request_line(rng: Random) -> WireCase:
    line = rng.choice(
        (
            *(
                b"POST /mutate HTTP/2.0",
                b"POST /mutate HTTP/1.1x",
                b"POST /mutate HTTP/11",
                b"POST /mutate http/1.1",
            ),
            *(
                b"POST  mutate HTTP/1.1",
                b"POST /mutate",
                b"POST",
                b"",
                b"/mutate HTTP/1.1",
                b"P\xd6ST /mutate HTTP/1.1",
            ),
            *(
                b"POST /mutate HTTP/1.1 x",
                b"POST\t/mutate\tHTTP/1.1",
                b"POST /mut\0ate HTTP/1.1",
                b"POST /\xff\xfe HTTP/1.1",
            ),
            *(
                b"POST mutate HTTP/1.1",
                b"POST * HTTP/1.1",
                b"POST http://[::1/mutate HTTP/1.1",
                b"POST //[ HTTP/1.1",
            ),
            *(
                b"POST /mutate/.. HTTP/1.1",
                b"POST /%00%zz%ff HTTP/1.1",
                b"POST /" + b"a" * 100_000 + b" HTTP/1.1",
            ),
            *(
                b"POST http:///mutate HTTP/1.1",
                b"POST :0/ HTTP/1.1",
                b"POST /mutate?" + b"a" * 9000 + b" HTTP/1.1",
            ),
            *(b"\x16\x03\x01\x02\x00", b"GET / HTTP/0.9", b"PRI * HTTP/2.0", b"POST /mutate HTTP/9.9"),
            *(
                b"POST http://u:p@[::1]:99999/ HTTP/1.1",
                b"POST /mutate;x HTTP/1.1",
                b"POST https://x:a/ HTTP/1.1",
            ),
        )
    )
    statuses = frozenset({400, 404, 405, 414, 505})
    data = request(good_body(), (*_JSON, (b"Connection", b"close")), line=line)
    return WireCase(f"line {line[:40]!r}", (data,), statuses, end="brief", uids=("u",))


def _method(rng: Random) -> WireCase:
    method = rng.choice(
        (b"GET", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"TRACE", b"CONNECT", b"BREW", b"post")
    )
    data = request(good_body(), line=method + b" /mutate HTTP/1.1")
    return WireCase(f"method {method!r}", (data,), frozenset({400, 404, 405, 501}))


def _content_type(rng: Random) -> WireCase:
    value = rng.choice(
        (b"", b"text/plain", b"application/yaml", b"\xff", b"application/jsonx", b";", b"a" * 8000, b'"')
    )
    return WireCase("content type", (request(good_body(), ((b"Content-Type", value),)),), frozenset({415}))


def _content_encoding(rng: Random) -> WireCase:
    coding = rng.choice((b"gzip", b"deflate", b"br", b"zstd", b"foo", b"gzip, gzip", b"\xff", b"identity"))
    body = rng.choice(
        (
            gzip.compress(good_body(), mtime=0),
            zlib.compress(good_body()),
            _BOMB,
            gzip.compress(_BOMB, mtime=0),
            good_body(),
        )
    )
    body = body[: rng.choice((len(body), len(body) // 2))]
    return WireCase(
        f"coding {coding!r}",
        (request(body, (*_JSON, (b"Content-Encoding", coding))),),
        frozenset({400, 415}),
        uids=("u",),
    )


def _expect(rng: Random) -> WireCase:
    value = rng.choice((b"100-continue", b"nothing", b"100-continue, x", b""))
    data = request(good_body(), (*_JSON, (b"Expect", value)))
    return WireCase(f"expect {value!r}", (data,), frozenset({400, 417}), uids=("u",))


def _upgrade(rng: Random) -> WireCase:
    to = rng.choice((b"h2c", b"websocket", b"TLS/1.3", b"\xff"))
    headers = (
        *_JSON,
        (b"Connection", b"Upgrade, HTTP2-Settings"),
        (b"Upgrade", to),
        (b"Sec-WebSocket-Version", b"13"),
    )
    data = request(good_body(), headers)
    return WireCase(f"upgrade {to!r}", (data,), frozenset({400, 426}), uids=("u",))


def _flipped(rng: Random) -> WireCase:
    """Return a request with some bytes of its head changed: it may be right still, or never end."""
    data = bytearray(request(good_body()))
    head = data.index(b"\r\n\r\n") + 4
    for _ in range(rng.randrange(1, 6)):
        data[rng.randrange(head)] = rng.choice((0, 9, 10, 13, 32, 44, 48, 58, 255, rng.randrange(256)))
    right = frozenset({400, 404, 405, 408, 411, 413, 414, 415, 417, 431, 501, 505})
    return WireCase("flipped bytes", (bytes(data),), right, 3, "brief", uids=("u",))


def _part_of_a_request(rng: Random) -> WireCase:
    data = request(good_body())
    end: End = rng.choice(("half", "leave", "abort"))
    return WireCase("half a request", _pieces(data[: rng.randrange(len(data))], rng), end=end)


def _unread(rng: Random) -> WireCase:
    return WireCase("answer unread", (request(good_body()),), end=rng.choice(("leave", "abort")))


def _no_tls(rng: Random) -> WireCase:
    data = rng.choice(
        (
            b"",
            request(good_body()),
            rng.randbytes(rng.randrange(1, 600)),
            b"\x16\x03\x01\xff\xff" + rng.randbytes(300),
            b"\x15\x03\x03\x00\x02\x02\x28",
            b"\x16\x03\x01\x00\x00",
            b"\x80\x2e\x01\x00\x02",
            b"PROXY TCP4 1 2 3 4\r\n",
        )
    )
    return WireCase("no TLS", (data,), end=rng.choice(("half", "leave", "abort")), layer="plain")


def _cut_handshake(rng: Random) -> WireCase:
    return WireCase("cut handshake", (), end=rng.choice(("half", "leave", "abort")), layer="hello")


def _cut_record(rng: Random) -> WireCase:
    return WireCase(
        "cut record", (request(good_body()),), end=rng.choice(("half", "leave", "abort")), layer="cut"
    )


_CASES: tuple[Callable[[Random], WireCase], ...] = (
    *(_good, _pipelined, _pipelined_then_broken, _pipelined_unread),
    *(_length_too_small, _length_too_large, _length_no_number, _length_twice, _over_the_limit, _both_lengths),
    *(_odd_encoding, _encoding_in_1_0, _broken_chunks, _trailers, _unended_chunks),
    *(_header_flood, _broken_header, _hosts, _bare_line_feeds, _request_line, _method),
    *(_content_type, _content_encoding, _expect, _upgrade, _flipped),
    *(_part_of_a_request, _unread, _no_tls, _cut_handshake, _cut_record),
)
