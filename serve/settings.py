"""Settings of a process: a YAML file, overridden by GPUFENCE_* variables, into one frozen value.

A settings type is a flat, frozen msgspec.Struct with a default for every field, each field followed by a
string that says what it means. A path that has to be there says so by its type (`ExistingFile`,
`ExistingDirectory`). The key in the file is the field's name in camel case (`failMode`), the variable its name
in capitals (`GPUFENCE_FAIL_MODE`). Unknown keys and variables are refused, and every problem is reported at
once.
"""

from __future__ import annotations

import ast
import re
import textwrap
from inspect import getsource
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import Meta, inspect

from policy.complaints import as_found
from policy.errors import CallerError
from policy.problems import Problem
from policy.suggest import choice, in_quotes, instead
from serve.documents import parse_document, read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

PREFIX = "GPUFENCE_"
S = TypeVar("S", bound=msgspec.Struct)

# Kubernetes sets these in every container for each Service of the namespace, and ours is called
# gpufence-webhook (kubelet, pkg/kubelet/envvars). They are not settings, so they are not unknown settings
# either.
_SERVICE_LINK = re.compile(
    r"GPUFENCE_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
_MAX_PORT = 65535

# Paths that must be there when the process starts. `made_by` is a command that makes one, before its path.
ExistingFile = Annotated[Path, Meta(extra={"there": "file"})]
ExistingDirectory = Annotated[Path, Meta(extra={"there": "directory"})]


class SettingsError(CallerError):
    """The settings cannot be used. `problems` holds every one of them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


class Address:
    """Where to listen: host and port, written `host:port` or `[v6]:port`."""

    __slots__ = ("host", "port")

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read the written form; ValueError says what is wrong."""
        host, colon, port = text.rpartition(":")
        bare = host.removeprefix("[").removesuffix("]")
        bracketed = host == f"[{bare}]"
        if not colon or not bare or (":" in bare and not bracketed):
            raise ValueError("expected host:port, or [address]:port for IPv6")
        if not (port.isascii() and port.isdigit()) or int(port) > _MAX_PORT:
            raise ValueError(f"expected a port from 0 to {_MAX_PORT} after the last colon")
        return cls(bare, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and (self.host, self.port) == (other.host, other.port)

    def __hash__(self) -> int:
        return hash((self.host, self.port))


class Setting(msgspec.Struct, frozen=True):
    """One setting, for the documentation."""

    key: str
    variable: str
    default: str
    expected: str
    text: str


def load_settings(
    kind: type[S],
    file: Path | None,
    environment: Mapping[str, str],
    conflicts: Callable[[S], Sequence[Problem]] = lambda _: (),
) -> S:
    """Read the file, if there is one, and the environment; SettingsError holds every problem.

    `conflicts` returns what of the settings does not go together; it is asked once each of them is good.

    Relative paths in the file start at its folder, so that a configuration can be moved; those in variables
    start at the working directory.
    """
    written = _written(file)
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    variables = {_variable(field.name): field for field in fields.values()}
    problems = _unknown(written, fields, "") + _unknown(
        _ours(environment), variables, "environment variable "
    )
    values: dict[str, Any] = {}
    folder = file.parent if file else Path()
    for key, field in fields.items():
        if key in written:
            _take(values, problems, field, written[key], where=key, base=folder, strict=True)
    for name, field in variables.items():
        if name in environment:
            where = f"environment variable {name}"
            _take(values, problems, field, environment[name], where=where, base=Path(), strict=False)
    problems += _missing(fields.values(), values, problems)
    if problems:
        raise SettingsError(problems)
    settings = kind(**values)
    if together := conflicts(settings):
        raise SettingsError(together)
    return settings


def documented(kind: type[msgspec.Struct]) -> tuple[Setting, ...]:
    """Return every setting with its text, in the order of the type; used for docs/settings.md."""
    texts = _texts(kind)
    return tuple(
        Setting(
            field.encode_name,
            _variable(field.name),
            _default(field.default),
            _expected(field.type),
            texts[field.name],
        )
        for field in msgspec.structs.fields(kind)
    )


def _written(file: Path | None) -> dict[str, Any]:
    document = parse_document(read_text(file), str(file)) if file else None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise SettingsError(
            [Problem(str(file), "a mapping of settings was expected", type(document).__name__)]
        )
    return {str(key): value for key, value in document.items()}


def _ours(environment: Mapping[str, str]) -> list[str]:
    return [name for name in environment if name.startswith(PREFIX) and not _SERVICE_LINK.fullmatch(name)]


def _unknown(names: Iterable[str], known: Mapping[str, object], what: str) -> list[Problem]:
    return [
        Problem(f"{what}{name}", "there is no such setting", fix=instead(name, known))
        for name in names
        if name not in known
    ]


def _take(
    values: dict[str, Any],
    problems: list[Problem],
    field: msgspec.structs.FieldInfo,
    value: Any,
    *,
    where: str,
    base: Path,
    strict: bool,
) -> None:
    """Convert one value into `values`, or add what is wrong with it to `problems`."""

    def special(kind: type, text: Any) -> Any:
        if not isinstance(text, str) or not text:
            raise ValueError
        return Address.parse(text) if kind is Address else base / text

    try:
        values[field.name] = msgspec.convert(value, field.type, strict=strict, dec_hook=special)
    except msgspec.ValidationError:
        message = f"must be {_expected(field.type)}"
        problems.append(Problem(where, message, as_found(value), _remedy(field, value, strict=strict)))


def _remedy(field: msgspec.structs.FieldInfo, value: Any, *, strict: bool) -> str:
    """Return what to write instead, with an example; `strict` where it is written in the file."""
    default = f"Leave it out for the default, {_default(field.default)}."
    if get_origin(field.type) is Literal:
        return f"{choice(value, get_args(field.type))} {default}"
    if isinstance(value, bool) and not _numeric(field.type):
        return f"{in_quotes(value)} {default}"
    name = f"{field.encode_name}: " if strict else f"{_variable(field.name)}="
    return f"Write it as in `{name}{_example(field, value)}`. {default}"


def _numeric(kind: Any) -> bool:
    return isinstance(inspect.type_info(kind), inspect.IntType | inspect.FloatType)


def _example(field: msgspec.structs.FieldInfo, value: Any) -> str:
    """Return a value that would be right: the default, or the one that was meant."""
    if _is_address(field.type):
        usual = field.default if isinstance(field.default, Address) else Address("127.0.0.1", 9108)
        given = int(value) if str(value).isascii() and str(value).isdigit() else usual.port
        return str(Address(usual.host, given if given <= _MAX_PORT else usual.port))
    return "file.yaml" if field.default is None else str(field.default)


def _expected(kind: Any) -> str:
    """Return what a value of the type is, behind `must be`."""
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    info = inspect.type_info(kind)
    if isinstance(info, inspect.IntType | inspect.FloatType):
        what = "a whole number" if isinstance(info, inspect.IntType) else "a number"
        return f"{what} {_range(info)}".strip()
    if _is_address(kind):
        return "host:port, or [address]:port for IPv6"
    return f"the path of a {there}" if (there := _extra(kind, "there")) else "a path"


def _is_address(kind: Any) -> bool:
    info = inspect.type_info(kind)
    members = info.types if isinstance(info, inspect.UnionType) else (info,)
    return any(isinstance(member, inspect.CustomType) and member.cls is Address for member in members)


def _range(info: inspect.IntType | inspect.FloatType) -> str:
    low = f"above {info.gt}" if info.gt is not None else f"from {info.ge}" if info.ge is not None else ""
    high = f"below {info.lt}" if info.lt is not None else f"to {info.le}" if info.le is not None else ""
    if info.gt is not None and info.le is not None:
        return f"{low} and at most {info.le}"
    if not low and info.le is not None:
        return f"of at most {info.le}"
    if low and not high and info.ge is not None:
        return f"of at least {info.ge}"
    return f"{low} {high}".strip()


def _extra(kind: Any, key: str) -> str:
    """Return what the type of a path says of it (`there`: file or directory), nothing for other types."""
    info = inspect.type_info(kind)
    members = info.types if isinstance(info, inspect.UnionType) else (info,)
    extras = (member.extra for member in members if isinstance(member, inspect.Metadata))
    return next((str(extra.get(key, "")) for extra in extras if extra), "")


def _missing(
    fields: Iterable[msgspec.structs.FieldInfo], values: Mapping[str, Any], problems: Sequence[Problem]
) -> list[Problem]:
    """Return a problem for each path that must be there and is not, of those that could be read."""
    named = {problem.path for problem in problems}
    found = []
    for field in fields:
        path = values.get(field.name, field.default)
        there = _extra(field.type, "there")
        if there and isinstance(path, Path) and field.encode_name not in named and not _is(path, there):
            message = f"there is no {there} {path.absolute()}"
            command = _extra(field.type, "made_by")
            create = f"Create it with `{command} {path.absolute()}`" if command else "Create it"
            fix = f"{create}, or set {field.encode_name} (variable {_variable(field.name)}) to another one."
            found.append(Problem(field.encode_name, message, fix=fix))
    return found


def _is(path: Path, there: str) -> bool:
    try:
        return path.is_dir() if there == "directory" else path.exists() and not path.is_dir()
    except OSError:  # its folder is closed to us
        return False


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _default(value: object) -> str:
    return "none" if value is None else str(value)


def _texts(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return the string that follows each field in the source of the type."""
    body = ast.parse(textwrap.dedent(getsource(kind))).body[0]
    if not isinstance(body, ast.ClassDef):
        raise TypeError(f"{kind} is not a class")
    texts = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            if not (isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)):
                raise TypeError(f"{kind.__name__}.{field.target.id} is not documented")
            texts[field.target.id] = " ".join(str(text.value.value).split())
    return texts
