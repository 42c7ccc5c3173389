"""What Python sees of the engine. The C headers are the one source; cffi's declarations and the type stub follow.

    python engine/python/interface.py            write circlematch/_engine.pyi
    python engine/python/interface.py --check    fail if the stub on disk is not what would be written

cffi reads plain C, so comments, C++ and preprocessor lines are removed from a header. Definitions of whole numbers
stay: they become constants of `lib`. CM_REAL becomes float or double.
"""

from __future__ import annotations

import builtins
import re
import sys
from pathlib import Path

ENGINE = Path(__file__).resolve().parents[1]
STUB = ENGINE.parent / "circlematch" / "_engine.pyi"

STREAM = ("circlematch.h", "python/binding.h")
FRONT_END = ("shared/numbers.h", "front_end/front_end.h")
TRAIN = ("train/train.h",)

WHOLE_NUMBER = re.compile(r"#define (\w+) (0x[0-9a-f]+|\d+)u?\s*")
FUNCTION = re.compile(r"^([\w ]+?[ *]+)(\w+)\(([^()]*)\);", re.MULTILINE)
PARAMETER = re.compile(r"(.+?)(\w+)$", re.DOTALL)
WIDTH = 120  # of a line of Python
PYTHON_TYPES = {"void": "None", "float": "float", "double": "float"}

STUB_HEAD = '''\
"""The compiled engine. Made by engine/python/interface.py from the C headers: run `make generated`."""

from typing import Any, Final

CData = Any  # a C pointer

ffi: Any

class _Library:
'''


def declarations(*headers: str, real: str = "float") -> str:
    """What these headers declare, for FFI.cdef."""
    return "\n".join(_declared((ENGINE / header).read_text(), real) for header in headers)


def _declared(text: str, real: str) -> str:
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"#ifdef __cplusplus.*?#endif", "", text, flags=re.DOTALL)
    lines = []
    for line in text.splitlines():
        if number := WHOLE_NUMBER.fullmatch(line):
            lines.append(f"#define {number[1]} {number[2]}")
        elif line.strip() and not line.startswith("#"):
            lines.append(re.sub(r"\bCM_REAL\b", real, line.rstrip()))
    return "\n".join(lines)


def functions(declared: str) -> dict[str, tuple[str, list[tuple[str, str]]]]:
    """Name -> what it returns, and the type and name of each parameter."""
    found = {}
    for returned, name, listed in FUNCTION.findall(declared):
        parameters = [PARAMETER.fullmatch(part.strip()) for part in listed.split(",") if part.strip() != "void"]
        found[name] = (returned.strip(), [(match[1].strip(), match[2]) for match in parameters if match])
    return found


def constants(declared: str) -> list[str]:
    """Names of whole numbers: definitions and members of enums."""
    members = [
        name for body in re.findall(r"enum \{(.*?)\}", declared, re.DOTALL) for name in re.findall(r"\bCM_\w+", body)
    ]
    return [*re.findall(r"^#define (\w+)", declared, re.MULTILINE), *members]


def python_name(name: str) -> str:
    """A parameter's name, with an underscore behind it where Python has a function of that name."""
    return f"{name}_" if hasattr(builtins, name) else name


def python_type(c_type: str) -> str:
    """How the stub writes a C type."""
    return "CData" if "*" in c_type else PYTHON_TYPES.get(c_type, "int")


def stub() -> str:
    """circlematch/_engine.pyi."""
    declared = declarations(*STREAM, *FRONT_END, *TRAIN)
    lines = [f"    {name}: Final[int]" for name in constants(declared)]
    for function, (returned, parameters) in functions(declared).items():
        given = ["self", *(f"{python_name(name)}: {python_type(kind)}" for kind, name in parameters), "/"]
        end = f") -> {python_type(returned)}: ..."
        line = f"    def {function}({', '.join(given)}{end}"
        if len(line) > WIDTH:  # as ruff formats it
            line = "\n".join([f"    def {function}(", *(f"        {part}," for part in given), f"    {end}"])
        lines.append(line)
    return STUB_HEAD + "\n".join(lines) + "\n\nlib: _Library\n"


def main() -> int:
    """Write the stub, or compare it with the one on disk."""
    text = stub()
    if "--check" in sys.argv[1:]:
        if STUB.read_text() != text:
            print(f"{STUB.name} is out of date: run `make generated`", file=sys.stderr)
            return 1
        return 0
    STUB.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
