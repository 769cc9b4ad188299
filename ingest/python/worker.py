"""Evaluates the callables of a mapping, in a process and a Python of its own. It needs only the standard library.

It reads a request as JSON from standard input: folders to import from, the first before all installed modules and the
rest after them; the distribution whose version is wanted; and tasks. To the file descriptor in its argument it writes a
message for the version, then one for each task: its length in eight bytes, big-endian, and JSON. What the libraries
print goes to standard output.
"""

from __future__ import annotations  # other Pythons are older

import contextlib
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import inspect
import itertools
import json
import operator
import os
import re
import sys
from json.encoder import encode_basestring_ascii as _quoted
from pathlib import Path
from types import ModuleType
from typing import Any, Callable  # noqa: UP035 - as above


def main() -> None:
    """Answer the request on standard input."""
    request = json.load(sys.stdin)
    first, *last = request["path"]
    own = {str(Path(__file__).parent), str(Path(__file__).resolve().parent)}
    path = [folder for folder in sys.path if folder not in own]
    installed = [place for place, folder in enumerate(path) if folder.endswith("-packages")]
    path.insert(installed[0] if installed else len(path), first)
    sys.path[:] = [*path, *last]
    adapters = [Path(task["adapter"]) for task in request["tasks"] if task["adapter"]]
    sys.meta_path.insert(0, _Libraries({file.stem: file for file in adapters}))
    process = os.getpid()
    with os.fdopen(int(sys.argv[1]), "wb") as answers:
        for answer in itertools.chain([_version(request)], map(_answer, request["tasks"])):
            if os.getpid() != process:  # a library has forked, and its child returned to us
                os._exit(0)
            message = _encoded(answer).encode()
            answers.write(len(message).to_bytes(8, "big") + message)
            answers.flush()


class _Libraries:
    """Finds the library that an adapter has the name of, and never the adapter itself."""

    def __init__(self, adapters: dict[str, Path]) -> None:
        self.adapters = adapters

    def find_spec(self, name: str, path: Any = None, _: Any = None) -> Any:
        """A module with the name of an adapter; others are found as usual."""
        if path is not None or name not in self.adapters:
            return None
        places = [Path(folder, name) for folder in sys.path]
        own = self.adapters[name]
        others = [at for at in places if at.with_name(f"{name}.py").resolve() != own or (at / "__init__.py").exists()]
        found = importlib.machinery.PathFinder.find_spec(name, [str(at.parent) for at in others])
        if found is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return found


def _encoded(value: Any) -> str:
    """JSON of what ``_plain`` returns, even if a library has replaced the module json."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(name)}:{_encoded(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_encoded, value)) + "]"
    return _quoted(value) if isinstance(value, str) else "null" if value is None else int.__repr__(value)


def _version(request: dict[str, Any]) -> str | None:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(request["package"]).partition("+")[0]  # without the build
    return None


def _answer(task: dict[str, Any]) -> dict[str, Any]:
    """The values of a task's function over its domain, or the reason why there are none."""
    try:
        target, module = _found(task)
        function = target(**task["make"]) if task["make"] is not None else target
        origin = _origin(module, task["origin"] or task["name"])
        if task["domain"] is None:
            return {"value": str(function) if task["form"] == "strides" else _plain(function), "origin": origin}
        return {**_enumerated(function, task["domain"], task["with"]), "origin": origin}
    except BaseException as error:
        return {"error": _words(error)}


def _found(task: dict[str, Any]) -> tuple[Any, ModuleType]:
    """The object that a task names, and the module that it is in: the first of the alternatives that has it."""
    refusals = []
    for name in task["modules"]:
        try:
            if task["adapter"] is None:
                module = importlib.import_module(name)
            else:
                specification: Any = importlib.util.spec_from_file_location("lanemap_adapter", task["adapter"])
                module = importlib.util.module_from_spec(specification)
                specification.loader.exec_module(module)
            return operator.attrgetter(task["name"])(module), module
        except (ImportError, AttributeError) as error:
            refusals.append(f"{name}: {error}")
    raise LookupError("; ".join(refusals))


def _enumerated(function: Callable[..., Any], domain: list[int], constants: dict[str, Any]) -> dict[str, Any]:
    """All values in the order of the domain, None where there is none, and the places of each error."""
    values: list[Any] = []
    errors: dict[str, list[int]] = {}
    for place, arguments in enumerate(itertools.product(*map(range, domain))):
        try:
            values.append(_plain(function(*arguments, **constants)))
        except Exception as error:
            values.append(None)
            errors.setdefault(_words(error), []).append(place)
    if sum(map(len, errors.values())) == len(values):
        return {"error": next(iter(errors))}
    return {"values": values, "undefined": errors}


def _plain(value: Any) -> Any:
    """A value as integers, text, and lists and dictionaries of these."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if hasattr(value, "__index__") and not getattr(value, "shape", ()):  # an array has it, too
        return int(operator.index(value))
    if hasattr(value, "__iter__") or hasattr(value, "__getitem__"):
        return [_plain(item) for item in value]
    if isinstance(getattr(value, "value", None), int):  # a constant of TVM's
        return value.value
    raise TypeError(f"returns a {type(value).__name__}, which is not an integer")


def _origin(module: ModuleType, name: str) -> str | None:
    """Where an object is defined: the file, relative to its import folder, the line and the name."""
    target: Any = module
    for part in name.split("."):
        if isinstance(target, ModuleType):
            module, named = target, part
        target = getattr(target, part)
    target = inspect.unwrap(getattr(target, "func", target))
    try:
        if hasattr(target, "__qualname__"):
            named = target.__qualname__
            code = getattr(target, "__code__", None)
            line = code.co_firstlineno if code else inspect.getsourcelines(target)[1]
        else:  # neither a function nor a class
            target = module
            line = next(at for at, text in enumerate(inspect.getsourcelines(module)[0], 1) if text.startswith(named))
        file = inspect.getsourcefile(target) or ""
    except (OSError, TypeError, StopIteration):
        return getattr(target, "__module__", module.__name__)
    folders = [folder for folder in map(os.path.abspath, sys.path) if file.startswith(folder + os.sep)]
    inside = os.path.relpath(file, max(folders, key=len)) if folders else Path(file).name
    return f"{inside}:{line} {named}"


def _words(error: BaseException) -> str:
    text = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", str(error)).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


if __name__ == "__main__":
    main()
