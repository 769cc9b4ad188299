"""CuTe's atoms, from the headers of a CUTLASS release, read as text.

An atom's instruction is the one in its operation's assembly, its registers are the operation's arrays, and its layouts
are those of its MMA_Traits or Copy_Traits.

Sparse A is in logical columns: ``sparse_elem<S, T>`` says that a stored T stands for S of them. Half are stored, chosen
within the chunk that PTX names (9.7.16.6.1). So the window of an element of A, or an index of E, is its chunk.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from ...db.errors import LanemapError
from ...db.isa.forms import Form
from ...db.isa.instructions import INSTRUCTIONS, WARP, dimensions, sparsity
from ...db.layout.algebra import NoLayoutError, Sum
from ...db.layout.fragment import Fragment, Source
from ...db.layout.sets import claim_sets
from ..atom import (
    AtomLayout,
    atom_operand,
    block_scales,
    move_fragments,
    named_form,
    named_move,
    tensor_memory,
    why_none,
)
from ..importing import Imported, Skipped, wrong
from .header import Header, Struct, TypeName, parse_header, parse_type
from .traits import Library, Traits, written

#: No header of CUTLASS has a tenth of this.
MAX_BYTES = 32 << 20

_HEADERS = ("cute/atom/mma_traits", "cute/atom/copy_traits", "cute/arch/mma", "cute/arch/copy", "cute/arch/tmem")
_INSIDE = ("", "include", "source/include", "cutlass_library/source/include")
_VERSION = re.compile(r"^#define CUTLASS_(MAJOR|MINOR|PATCH)\s+(\d+)", re.MULTILINE)

_REGISTER_BITS = {"uint32_t": 32, "int32_t": 32, "float": 32, "double": 64}
_BYTE = re.compile(r"(\d+)_?\.([xyzw])")
_SELECTOR = re.compile(r"0x([0-3])")
_PTX = re.compile(r"([a-z][a-z0-9_]+[.][\w:]+)(?:[.][\w:]+)*")
_NO_INSTRUCTION = re.compile(r"setp|mov[.]|bar|elect")


def load(path: str | Path) -> list[Imported]:
    """Every atom of CuTe's headers: one source, and one more for each atom that contradicts others.

    Args:
        path: a CUTLASS source tree, its include folder, or one header, whose includes are followed.

    Raises:
        LanemapError: there is no atom of CuTe.
    """
    tree = Tree(Path(path))
    units = list(tree.atoms())
    skipped = tree.skipped
    if not any(fragments for _, fragments in units):
        why = f"{skipped[0].name}: {skipped[0].reason}" if skipped else "it has no struct MMA_Traits<...>"
        raise LanemapError(f"{path} has no CuTe atom: {why}")
    declared = tree.root / "cutlass" / "version.h"
    parts = dict(_VERSION.findall(_read(declared))) if declared.is_file() else {}
    version = ".".join(parts[part] for part in ("MAJOR", "MINOR", "PATCH")) if len(parts) == 3 else None
    provenance: dict[str, Any] = {"library": "CUTLASS", "version": version, "notation": "cute"}
    provenance |= {"files": tree.files, "wrong": wrong(skipped)}
    title = f"CuTe of CUTLASS {version}" if version else "CuTe"
    source = Source(f"cute-{version}" if version else "cute", "import", title, (), provenance)
    first, *others = claim_sets(source, units)
    return [Imported(first, skipped), *map(Imported, others)]


class Tree:
    """The headers with traits at a path, the declarations in them and their includes, and what was left out."""

    def __init__(self, path: Path) -> None:
        """Read them, from the oldest architecture to the newest.

        Raises:
            LanemapError: the path does not exist or has no such header, or one cannot be read.
        """
        self.root, headers = _located(path)
        self.library = Library()
        self.files: dict[str, str] = {}
        self.skipped: list[Skipped] = []
        self.headers = [header for header in map(self._header, headers) if header]
        waiting = list(self.headers)
        while waiting:
            header = waiting.pop()
            folder = Path(header.file).parent
            names = [name if "/" in name else (folder / name).as_posix() for name in header.includes]
            names = [name for name in names if name.startswith(_HEADERS) and ".." not in name]
            includes = [self._header(self.root / name) for name in names if (self.root / name).is_file()]
            waiting += filter(None, includes)

    def _header(self, path: Path) -> Header | None:
        """Read a header and add its declarations; None if that was done before, or it cannot be read."""
        name = path.relative_to(self.root).as_posix()
        if name in self.files:
            return None
        text = _read(path)
        self.files[name] = hashlib.sha256(text.encode()).hexdigest()
        try:
            header = parse_header(text, name)
            self.library.add(header)
        except LanemapError as error:
            self.skipped.append(Skipped(name, str(error)))
            return None
        return header

    def atoms(self) -> Iterator[tuple[str, list[Fragment]]]:
        """The name and the fragments of each operation that has traits."""
        for struct in (struct for header in self.headers for struct in header.structs):
            if self.library.pattern(struct) is None:
                continue
            operations = self.library.operations(struct)
            if not operations:
                reason = "its operation, a struct of this name, is missing or has other traits"
                self.skipped.append(Skipped(written(struct), reason))
            for name, operation in operations:
                called = str(name) if struct.parameters else written(struct)
                parts = list(atom(self.library, name, operation, called))
                self.skipped += [part for part in parts if isinstance(part, Skipped)]
                yield called, [part for part in parts if isinstance(part, Fragment)]
        self.skipped += (Skipped(str(name), "it has no traits") for name in self.library.lonely())


def _located(path: Path) -> tuple[Path, list[Path]]:
    """The include folder and the headers with traits at a path."""
    advice = "name a CUTLASS source tree, its include folder, or a header of it"
    if not path.exists():
        raise LanemapError(f"{path} does not exist: {advice}")
    if path.is_file():
        root = next((parent for parent in path.resolve().parents if (parent / "cute").is_dir()), None)
        return root or path.resolve().parent, [path.resolve()]
    for inside in _INSIDE:
        headers = [*(path / inside / "cute" / "atom").glob("mma_traits*.hpp")]
        headers += (path / inside / "cute" / "atom").glob("copy_traits*.hpp") if headers else ()
        if headers:
            by_number = sorted(headers, key=lambda header: ([*map(int, re.findall(r"\d+", header.name))], header.name))
            return path / inside, by_number
    raise LanemapError(f"{path} holds no cute/atom/mma_traits*.hpp: {advice}")


def _read(header: Path) -> str:
    """The text of a header.

    Raises:
        LanemapError: it cannot be read, is too large for a header, or is not text.
    """
    if header.exists() and not header.is_file():
        raise LanemapError(f"{header} is not a file: a pipe or a device might never end")
    try:
        with header.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise LanemapError(f"cannot read {header}: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise LanemapError(f"{header} has more than {MAX_BYTES >> 20} MiB: too much for a C++ header")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise LanemapError(f"{header} is not text: name a C++ header") from None


def atom(library: Library, name: TypeName, operation: Struct, called: str) -> Iterator[Fragment | Skipped]:
    """The fragments of an operation, and a Skipped with the reason for each operand without one, or for the whole.

    Args:
        library: the declarations of the headers.
        name: the operation's name, which leads to its traits.
        operation: its struct.
        called: its name in a Skipped.
    """
    traits = library.traits(name)
    read = _copy if traits.struct.name.name == "Copy_Traits" else _product
    try:
        yield from read(library, traits, operation, called)
    except LanemapError as error:
        yield Skipped(called, str(error))


def _product(library: Library, traits: Traits, operation: Struct, called: str) -> Iterator[Fragment | Skipped]:
    every = [*filter(None, map(named_form, operation.strings))]
    if not every:
        raise LanemapError(_reason(operation))
    named = every[0]
    threads = _layout_of(library, traits, "ThrID")
    shape = library.member(traits, "Shape_MNK")
    if shape != named.dimensions:
        raise LanemapError(f"its Shape_MNK is {shape}, but its instruction is {named.shape}")
    origin = f"{traits.struct.where} {called}"
    absent = {"SFA", "SFB", *({"C"} & {*named.instruction.absent})}  # D is what wgmma adds to
    for role in [role for role in named.types if role not in absent]:
        try:
            operand = _operand(library, traits, operation, named, role)
            for selector, supplies in _suppliers(operation, named, role):
                held = operand._replace(supplies=supplies)
                yield atom_operand(named, role, held, threads, selector, origin)
        except LanemapError as error:
            claimed = (named.key(role), origin) if isinstance(error, NoLayoutError) else ()
            yield Skipped(f"{called} {role}", str(error), *claimed)
    if not library.has(traits, "SFALayout"):
        return
    # An operation may have a mnemonic for each number of scales.
    scaled = [form for form in every if form.block_scales]
    if not scaled:
        yield Skipped(f"{called} SFA, SFB", "its mma has no block scales")
    for form, role in product(scaled, ("SFA", "SFB")):
        try:
            chosen = [operation.numbers.get(f"{name}{role[-1]}") for name in ("bid", "tid")]
            yield block_scales(form, role, _layout_of(library, traits, f"{role}Layout"), chosen, origin)
        except LanemapError as error:
            yield Skipped(f"{called} {role}", str(error))


def _copy(library: Library, traits: Traits, operation: Struct, called: str) -> Iterator[Fragment]:
    key = next(filter(None, map(named_move, operation.strings)), None)
    if key is None:
        raise LanemapError(_reason(operation))
    origin = f"{traits.struct.where} {called}"
    if library.has(traits, "ValID"):  # of Tensor Memory
        held = "DstLayout" if INSTRUCTIONS[key.instruction].moves == "load" else "SrcLayout"
        values = _layout_of(library, traits, "ValID")
        yield tensor_memory(key, _layout_of(library, traits, held), values, origin)
    else:
        source, target = (_layout_of(library, traits, f"{side}Layout") for side in ("Src", "Dst"))
        yield from move_fragments(key, source, target, origin, _byte_order(operation))


def _byte_order(operation: Struct) -> list[int]:
    """For each byte of the result, which byte of the instruction's it is; empty if they are the same.

    Raises:
        LanemapError: the operation changes its registers afterwards in another way.
    """
    if not operation.afterwards:
        return []
    order = [4 * int(reg) + "xyzw".index(byte) for text in operation.afterwards for reg, byte in _BYTE.findall(text)]
    if sorted(order) != [*range(4 * (parse_type(operation.members["DRegisters"]).extent or 0))]:
        raise LanemapError("it changes its registers after its instruction: what that returned is not known")
    return order


def _reason(operation: Struct) -> str:
    matches = filter(None, map(_PTX.search, operation.strings))
    family = next((match[1] for match in matches if not _NO_INSTRUCTION.match(match[0])), None)
    return "it has no instruction of its own in its assembly" if family is None else why_none(family)


def _layout_of(library: Library, traits: Traits, member: str) -> Sum:
    """A member of the traits that is a layout; raises LanemapError if it is missing or not one."""
    value = library.member(traits, member)
    if not isinstance(value, Sum):
        raise LanemapError(f"its {member} is {value}, not a layout")
    return value


def _operand(library: Library, traits: Traits, operation: Struct, form: Form, role: str) -> AtomLayout:
    adds = role == "D" and "C" in form.instruction.absent
    text = operation.members.get("CRegisters" if adds else f"{role}Registers", "none")
    if form.instruction.fixed and text.startswith("uint64_t"):
        raise LanemapError("it is in shared memory, and no thread holds any of it")
    array = parse_type(text)
    registers, bits = array.extent, _REGISTER_BITS.get(array.name)
    if bits is None or not registers:
        raise LanemapError(f"its {role}Registers are {text}, not an array of 32- or 64-bit registers")
    layout = _layout_of(library, traits, "CLayout" if role == "D" else f"{role}Layout")
    if (bits == 64) != (form.types[role] == "f64"):
        raise LanemapError(f"its registers have {bits} bits, but its mma takes {form.types[role]}")
    rule = sparsity(form.name, form.shape, form.a)
    if role == "E":
        return AtomLayout(layout, registers, rule.slots, rule.width)
    compressed = role == "A" and form.sparse
    if compressed:
        match type_ := library.member(traits, "ValTypeA"):
            case TypeName("sparse_elem", [int(logical), *_]) if logical > 1:
                pass
            case _:
                why = f"its ValTypeA is {type_}, not a sparse_elem, which would say which columns it has"
                raise LanemapError(f"its mma is sparse, but {why}")
    values = layout.lengths[1] if len(layout.axes) == 2 else 0
    slots = values // (2 if compressed else 1) // registers
    if slots < 1 or bits % slots:
        raise LanemapError(f"{layout} does not fill {registers} registers of {bits} bits")
    return AtomLayout(layout, registers, slots, rule.width if compressed else 1)


def _suppliers(operation: Struct, form: Form, role: str) -> list[tuple[int | None, tuple[int, ...]]]:
    """For each fragment of a role, its selector and the lanes of each four that hold it.

    The selector of a warp's instruction is a literal in the assembly. That of a warpgroup's is a parameter: it selects
    one pair of each four lanes, or has no effect if all four are needed.
    """
    every = (0, 1, 2, 3)
    if role != "E":
        return [(None, every)]
    if form.threads > WARP:
        lanes = len(every) // len(form.selectors)
        return [(selector, every[selector * lanes : (selector + 1) * lanes]) for selector in range(len(form.selectors))]
    literal = next(filter(None, map(_SELECTOR.search, operation.strings)), None)
    if literal is None:
        raise LanemapError("its mma has no sparsity selector")
    return [(int(literal[1]), every)]
