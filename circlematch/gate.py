"""The gate: plain data from a file becomes dataclasses only if every value has its type and lies in its range.

The description is the dataclass itself. A field's type says what may stand there; `Annotated` narrows it:

    classes: Annotated[int, Between(2, 65_536)]
    labels: tuple[Label, ...]

What is not narrowed is bounded all the same: whole numbers fit into 64 bits, other numbers are finite and at most
1e12, texts are printable and at most 2,000 characters, lists and tables have at most 65,536 entries. A new field is
covered by its type. Laws between fields stand in `__post_init__`. Everything that is refused is a UsageError
with one sentence, which begins with the place of the value: `specification.labels[3] is …`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from circlematch.errors import UsageError
from circlematch.text import printable

__all__ = ["Between", "Label", "Letters", "Name", "Sha256", "read", "shown"]

LARGEST_INTEGER = 2**63
LARGEST_NUMBER = 1e12
LONGEST_TEXT = 2_000
MOST_ENTRIES = 65_536
SHOWN = 40  # characters of a refused value in a message

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Between:
    """The range of a number, both ends included."""

    least: float
    most: float


@dataclass(frozen=True)
class Letters:
    """How many characters a text has; with `of`, only these characters."""

    least: int
    most: int
    of: str = ""


Label = Annotated[str, Letters(1, 100)]
Name = Annotated[str, Letters(1, 200)]
Sha256 = Annotated[str, Letters(64, 64, "0123456789abcdef")]


def read(kind: type[Kind], values: Any, place: str = "") -> Kind:
    """The dataclass `kind` from plain data. Absent fields get their defaults; unknown ones are refused."""
    if not isinstance(values, Mapping):
        raise _refusal(place or kind.__name__, values, "a table of settings")
    wanted = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]  # a dataclass, as `_value` sees to
    if unknown := [name for name in values if name not in wanted]:
        names = ", ".join(sorted(printable(str(name)[:SHOWN]) for name in unknown[:5]))
        raise UsageError(f"{kind.__name__} has no {names}; it knows {', '.join(sorted(wanted))}")
    absent = [name for name, field in wanted.items() if name not in values and not _has_default(field)]
    if absent:
        raise UsageError(f"{place or kind.__name__} lacks {', '.join(absent)}")
    hints = _hints(kind)  # type: ignore[arg-type]  # classes are hashable
    inner = f"{place}." if place else ""
    return kind(**{name: _value(hints[name], value, inner + name) for name, value in values.items()})


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _has_default(field: Any) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _value(hint: Any, value: Any, place: str) -> Any:
    """The value as its type hint describes it."""
    origin, parameters = get_origin(hint), get_args(hint)
    if origin is Annotated:
        plain = _value(parameters[0], value, place)
        for limit in parameters[1:]:
            _check_limit(limit, plain, place)
        return plain
    if origin in (Union, UnionType):
        (other,) = (kind for kind in parameters if kind is not NoneType)
        return None if value is None else _value(other, value, place)
    if origin is tuple:
        if not isinstance(value, list | tuple) or len(value) > MOST_ENTRIES:
            raise _refusal(place, value, f"a list of at most {MOST_ENTRIES:,} entries")
        return tuple(_value(parameters[0], item, f"{place}[{index}]") for index, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict) or len(value) > MOST_ENTRIES:
            raise _refusal(place, value, f"a table of at most {MOST_ENTRIES:,} entries")
        return {_text(key, place): _value(parameters[1], item, f"{place}.{shown(key)}") for key, item in value.items()}
    if isinstance(hint, type) and is_dataclass(hint):
        return read(hint, value, place)
    return SCALARS[hint](value, place)


def _switch(value: Any, place: str) -> bool:
    if not isinstance(value, bool):
        raise _refusal(place, value, "true or false")
    return value


def _integer(value: Any, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > LARGEST_INTEGER:
        raise _refusal(place, value, "a whole number of at most 64 bits")
    return value


def _number(value: Any, place: str) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not abs(value) <= LARGEST_NUMBER
        or not isfinite(value)
    ):
        raise _refusal(place, value, f"a number of at most {LARGEST_NUMBER:g}")
    return float(value)


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT or not value.isprintable():
        raise _refusal(place, value, f"a text of at most {LONGEST_TEXT:,} printable characters")
    return value


SCALARS: dict[Any, Any] = {bool: _switch, int: _integer, float: _number, str: _text}


def _check_limit(limit: Between | Letters, value: Any, place: str) -> None:
    """Raise unless the value lies within its limit; None, where it is allowed, has none."""
    if value is None:
        return
    if isinstance(limit, Between):
        if not limit.least <= value <= limit.most:
            raise _refusal(place, value, f"from {limit.least:g} to {limit.most:g}")
    elif not limit.least <= len(value) <= limit.most or (limit.of and not set(value) <= set(limit.of)):
        length = f"{limit.least}" if limit.least == limit.most else f"{limit.least} to {limit.most}"
        raise _refusal(place, value, f"{length} printable characters{f' of {limit.of}' if limit.of else ''}")


def _refusal(place: str, value: Any, allowed: str) -> UsageError:
    return UsageError(f"{place} is {shown(value)}; it must be {allowed}")


def shown(value: Any) -> str:
    """A value for a message: short, on one line, and without a huge number's digits."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST_INTEGER:
        return "a huge number"
    if isinstance(value, list | tuple | dict):
        return f"a {'table' if isinstance(value, dict) else 'list'} of {len(value):,}"
    text = printable((value if isinstance(value, str) else repr(value))[: SHOWN + 1])
    text = f"{text[:SHOWN]}…" if len(text) > SHOWN else text
    return f"'{text}'" if isinstance(value, str) else text
