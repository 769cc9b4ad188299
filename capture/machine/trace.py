"""A run of a kernel: what it is given, what it computes, and all that is wrong with it."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...db.errors import LanemapError
from ...db.layout.algebra import Array
from ...db.text import counted
from . import bulk, parameters, product, sums, tensor_memory
from .arguments import Argument
from .deadlock import note_deadlock
from .findings import Judge
from .labels import ANY, Stored
from .launch import Dimensions, Job, Launch, Log
from .memory import Allocated, Memory, lay_out
from .opcodes import bind
from .operands import Diagnostic
from .order import History
from .parse import parse
from .ptx import Module
from .report import FAULTS, Trace
from .schedule import Machine
from .tensor import Layouts
from .unwritten import Unwritten
from .values import MIXED, NONE, UNSET, Execution, Tape, whole

#: Threads that run at once, if that is not less than a block.
_TOGETHER = 4096

#: The same where blocks may wait for each other.
_WAITING = 1 << 15

#: Instructions of all groups of threads after which a run ends.
LIMIT = 5_000_000


def trace(
    text: str,
    layouts: Layouts,
    arguments: Sequence[Argument] = (),
    *,
    block: Dimensions,
    grid: Dimensions = (1, 1, 1),
    shared: int = 0,
    entry: str | None = None,
    formula: str | None = None,
    seed: int = 0,
    limit: int = LIMIT,
    file: str = "",
    progress: Callable[[int, int], object] | None = None,
) -> Trace:
    """Run a kernel, whose PTX is ``text``, and judge it.

    ``layouts`` gives the fragment of each operand of a tensor instruction. ``formula`` is what the kernel computes, in
    index notation. ``file`` is where it was read from. ``progress`` is called with how many blocks have ended, of how
    many.

    Raises:
        LanemapError: the text is not PTX, the arguments are not those of the kernel, or the product not theirs.
    """
    started = time.perf_counter()
    module = parse(text)
    function = module.entry(entry)
    steps = product.parse(formula) if formula else ()
    factors = [factor for step in steps for term in step.terms for factor in term.factors]
    outputs = [step.left.name for step in steps if step.left.name not in {factor.name for factor in factors}]
    if seed < 0:
        raise LanemapError(f"seed {seed}: write a whole number from 0 on", "seed")
    arguments = [_with_metadata(argument, arguments, factors, seed) for argument in arguments]
    given = parameters.given(arguments, function, outputs, seed)
    arrays = [argument for argument in given if argument.pointer]
    by_name = {argument.name: argument for argument in arrays}
    shapes = {argument.name: argument.shape for argument in arrays}
    extents = product.extents(steps, shapes)
    if steps and steps[-1].left.name not in shapes:
        raise LanemapError(
            f"{steps[-1].left.name} of the product is no argument: there is {', '.join(shapes)}", "product"
        )
    if not 1 <= prod(block) <= 1024 or not 1 <= prod(grid) <= 1 << 20 or not 0 <= shared <= 1 << 18:
        raise LanemapError(
            "a block has 1 to 1024 threads, a grid is of 1 to 2^20 blocks, and shared memory of 2^18 bytes"
        )
    if any(blocks % of for blocks, of in zip(grid, function.cluster, strict=True)):
        raise LanemapError(
            f"clusters have {'x'.join(map(str, function.cluster))} blocks: a grid has whole ones", "grid"
        )
    chosen = {
        factor.name: product.stored_columns(
            _codes(by_name[factor.metadata]), extents[factor.indices[-1]], factor.metadata
        )
        for factor in factors
        if factor.metadata
    }
    globe, places, symbols = _globe(module, arrays, module.starts(function))
    launch = Launch(grid, block, shared, *parameters.packed(given, function.parameters, places))
    tape, log = Tape(1 + sum(argument.count for argument in arrays), _alone(arrays)), Log()
    size = prod(function.cluster)
    together = max((_WAITING if _waits(module) else _TOGETHER) // prod(block) // size, 1) * size
    clusters = _clusters(grid, function.cluster)
    order = np.argsort(clusters, kind="stable").tolist()  # the blocks of a cluster follow each other
    unknown: dict[str, str] = {}
    # Without a product an array of integers may stand for anything of its width.
    typed = [argument for argument in arrays if steps or argument.floating]
    history = History(clusters, len(globe.data))
    job = Job(module, function, launch, globe, symbols, tape, log, history, layouts, bind, typed)

    def say(ended: int) -> None:
        if progress is not None:
            progress(first + ended, prod(grid))

    for first in range(0, prod(grid), together):
        blocks = order[first : first + together]
        machine = Machine(job, blocks)
        unknown = unknown or machine.unknown()
        if waits := machine.run(limit, say):
            note_deadlock(machine, last=first + together >= prod(grid))
        machine.steps.clear()  # which refer to the machine, whose memory would else stay beside that of the next one
        if log.stopped:
            break
        if not waits:
            tensor_memory.expect_freed(machine)
            bulk.expect_awaited(machine)
        say(len(blocks))
    lies = {name: place.bytes for name, place in places.items()}
    output = by_name[steps[-1].left.name] if steps else None
    left = {each.name: _origins(each, globe.origin[lies[each.name]]) for each in ([output] if output else arrays)}
    # Without a product the array that most sums are stored in.
    name = max(left, key=lambda name: int((left[name] >= tape.starts[0]).sum()), default="")
    judge = Judge(tape, arrays, steps, extents, chosen, Stored(name, left[name]) if name else None)
    judge.follow()
    findings = [*judge.operands, *_faults(log)]
    made, checked = {}, not log.stopped
    if checked:
        unwritten = Unwritten(tape)
        for each, before in zip(given, arguments, strict=True):
            if each.name in left:
                writer = history.globe.writer[lies[each.name].start + np.arange(prod(each.shape)) * each.bits // 8]
                filled = before.array is not None and each is not output
                made[each.name], found = unwritten.left(
                    judge, each.name, left[each.name], writer, machine, filled=filled
                )
                findings += found
    notes = [f"not known: {words}, {place}" for words, place in unknown.items()]
    notes += [f"stopped: {log.stopped}"] if log.stopped else []
    if output and checked:
        numbers = {each.name: each.numbers.reshape(each.shape) for each in arrays if each.array is not None}
        with np.errstate(invalid="ignore"):
            expected = product.evaluate(steps, numbers, chosen)
        findings += _output(judge, output, globe.data[lies[output.name]], steps, expected, made[output.name])
    values = {argument.name: argument.decode(globe.data[lies[argument.name]]) for argument in arrays}
    conflicts = tuple(
        f"{name} of {place} has {degree}-way conflicts" for (name, place), degree in log.conflicts.items() if degree > 1
    )
    counts = _counts(tape, log, prod(block), time.perf_counter() - started)
    return Trace(function.name, tuple(findings), tuple(notes), values, counts, conflicts, checked, judge, file)


def _clusters(grid: Sequence[int], size: Sequence[int]) -> Array:
    """The number of the cluster that each block of a grid is in."""
    z, y, x = (at // of for at, of in zip(np.indices(grid[::-1]), size[::-1], strict=True))
    return np.asarray((z * grid[1] + y) * grid[0] + x).ravel()


def _alone(arrays: Sequence[Argument]) -> Array | None:
    """By the origin of each element that shares a byte, the one that stands for it alone; MIXED if not followed."""
    if all(argument.bits >= 8 for argument in arrays):
        return None
    found = np.zeros(1 + sum(argument.count for argument in arrays), np.int32)
    for argument in arrays:
        if argument.bits < 8:
            at = argument.first + np.arange(argument.count // 2)
            found[at] = at + len(at) if argument.bits == 4 else MIXED
    return found


def _with_metadata(
    argument: Argument, others: Sequence[Argument], factors: Sequence[product.Factor], seed: int
) -> Argument:
    """An argument that is metadata of a sparse one and has no values with such that choose columns."""
    of = next((factor.name for factor in factors if argument.name and factor.metadata == argument.name), None)
    stored = next((each for each in others if each.name == of), None)
    if stored is None or argument.array is not None or not argument.pointer or not stored.pointer:
        return argument
    random, columns = np.random.default_rng(seed), 2 * stored.shape[-1]
    array = product.random_metadata(argument.shape, argument.bits, columns, argument.name, random)
    return replace(argument, array=array)


def _codes(argument: Argument) -> Array:
    """The elements of an array as unsigned numbers."""
    if argument.array is None:
        raise LanemapError(f"{argument.name} is metadata, and is given no values", "arg")
    return argument.encode().view(f"u{argument.bits // 8}").reshape(argument.shape)


def _waits(module: Module) -> bool:
    """Whether threads may wait for what those of other blocks write, which then must run beside them."""
    body = (statement for function in module.functions.values() for statement in function.body)
    strong = {"acquire", "relaxed", "volatile"}
    return any(each.parts[0] == "atom" or (each.parts[0] == "ld" and strong & {*each.parts}) for each in body)


def _globe(
    module: Module, arrays: Sequence[Argument], functions: Mapping[str, int]
) -> tuple[Memory, dict[str, Allocated], dict[str, int]]:
    """Global memory, where arguments lie there, and the addresses of variables, which may have those of others."""
    variables = [variable for variable in module.variables if variable.space in (".global", ".const")]
    globe, every = lay_out([each.size for each in arrays] + [each.size for each in variables])
    places = {argument.name: place for argument, place in zip(arrays, every, strict=False)}
    for argument in arrays:
        if argument.array is not None:
            at = places[argument.name].bytes
            globe.data[at], globe.origin[at] = argument.encode(), argument.origins
    own = dict[str, Allocated]()
    for variable, place in zip(variables, every[len(arrays) :], strict=True):
        own[variable.name] = place
        globe.data[place.bytes] = np.frombuffer(variable.data or bytes(place.size), "u1")
        globe.origin[place.bytes] = NONE
    globe.allocated = own | places
    named = {name: place.address for name, place in own.items()}
    known = {**functions, **named}
    for variable in variables:
        for link in variable.links:
            bits = known.get(link.name, 0) + link.more & link.mask
            bits = bits // (link.mask & -link.mask) & (1 << 8 * link.size) - 1
            start = own[variable.name].bytes.start + link.offset
            globe.data[start : start + link.size] = np.frombuffer(bits.to_bytes(link.size, "little"), "u1")
    return globe, places, named


class Compiled(NamedTuple):
    """PTX with what a compiler says of it: threads of a block, dynamic shared memory, types of arguments by name.

    ``file`` is where it was read from, and ``cluster`` how many blocks a program of Triton's grid has.
    """

    text: str
    threads: int | None = None
    shared: int | None = None
    types: Mapping[str, str] | None = None
    file: str = ""
    cluster: int = 1


def compiled(kernel: Any, *, files: bool = True) -> Compiled:
    """The PTX of a path, a text, or what Triton compiles, which need not have a GPU. No path without ``files``."""
    if (asm := getattr(kernel, "asm", None)) is not None:
        metadata, signature = kernel.metadata, kernel.src.signature
        types = {name: type_ for name, type_ in signature.items() if type_ != "constexpr"}
        return Compiled(asm["ptx"], 32 * metadata.num_warps, metadata.shared, types, cluster=metadata.num_ctas)
    if isinstance(kernel, str) and "{" in kernel:
        return Compiled(kernel)
    if not files:
        raise LanemapError("this is no PTX: send what nvcc -ptx writes", "kernel")
    try:
        return Compiled(Path(kernel).read_text("utf-8-sig"), file=str(kernel))
    except (OSError, ValueError, TypeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise LanemapError(f"cannot read {kernel}: {reason}: name a file of PTX") from None


def _faults(log: Log) -> list[Diagnostic]:
    found = []
    for fault, count in log.faults.values():
        of_block = f" of block {fault.block}" * bool(fault.block)
        where = f"warp {fault.thread // 32}, lane {fault.thread % 32}{of_block}"
        times = f", {count} times" if count > 1 else ""
        words = f"{FAULTS[fault.kind]}: {fault.words} ({fault.place}, {where}{times})"
        found.append(Diagnostic(fault.kind, words, fault.place.named, count=count))
    return found


def _origins(argument: Argument, origin: Array) -> Array:
    """The origin of each element of an array, by those of its bytes."""
    if argument.bits >= 8:
        return whole(origin.reshape(-1, argument.bits // 8))
    # Of those that share a byte only the first has its origin.
    place, bit = np.divmod(np.arange(prod(argument.shape)) * argument.bits, 8)
    return np.where((bit == 0) | (origin[place] < 0), np.maximum(origin[place], UNSET), MIXED)


def _output(
    judge: Judge,
    argument: Argument,
    data: Array,
    steps: Sequence[product.Formula],
    expected: dict[str, Array],
    unwritten: Array,
) -> list[Diagnostic]:
    """Compare the output of the last step with what the product says, but for what is made of the ``unwritten``."""
    assert judge.stored is not None
    name, ids = judge.stored
    number = judge.names.index(name)
    found = []
    unset = (ids == UNSET) & ~unwritten
    if unset.any():
        index = [int(part) for part in np.unravel_index(int(np.argmax(unset)), argument.shape)]
        words = f"{name}: {np.count_nonzero(unset)} of {unset.size} elements are never written"
        found.append(Diagnostic("unwritten", words, details=(f"the first is {judge.element(number, index)}",)))
    values = argument.decode(data).astype("f8")
    wanted = expected[name]
    off = _tolerance(judge, steps)
    largest = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0)) / 4
    wrong = ~np.isclose(values, wanted, rtol=off, atol=off * largest, equal_nan=True)
    wrong &= ~(unset | unwritten).reshape(wrong.shape)
    if wrong.any():
        found.append(_wrong(judge, number, wrong, ids, values, wanted))
    return found


def _tolerance(judge: Judge, steps: Sequence[product.Formula]) -> float:
    """How far results may be off: rounding of the narrowest type between, where functions leave the whole numbers."""
    kinds = {argument.type for argument in judge.arguments}
    digits = {"f64": 52, "f32": 23, "f16": 10, "bf16": 7, "e4m3": 3, "e5m2": 2}
    inexact = len(steps) > 1 or any(step.functions or any(term.scale != 1 for term in step.terms) for step in steps)
    name = steps[-1].left.name
    own = next(argument.type for argument in judge.arguments if argument.name == name)
    least = min(digits.get(kind, 10 if inexact else 30) for kind in (kinds if inexact else {own}))
    return float(2.0 ** -min(least, 10 if inexact else 52)) * (4 if inexact else 1)


def _wrong(judge: Judge, number: int, wrong: Array, ids: Array, values: Array, wanted: Array) -> Diagnostic:
    """Which elements are wrong, and why the first of them is."""
    flat = np.flatnonzero(wrong)
    labels = judge.labels(ids[flat])
    place = np.stack(np.unravel_index(flat, wrong.shape), axis=-1)
    rank = place.shape[1]
    target = judge.origin(judge.names[number])
    known = (labels.array == target) & (labels.place[:, :rank] != ANY).all(axis=-1)
    elsewhere = known & (labels.place[:, :rank] != place).any(axis=-1)
    words = f"{judge.names[number]}: {len(flat)} of {wrong.size} elements are wrong"
    details, at, kind, operand = list[str](), 0, "sum", None
    first = int(np.argmax(elsewhere))
    other, origin = labels.place[first], int(ids[flat[first]])
    right = elsewhere.any() and sums.words(judge, number, other[:rank].tolist(), origin) in ("", sums.RIGHT)
    if right and (stored := judge.stored_as(origin)):
        at, kind, (operand, how) = first, "store", stored
        subject = f"{judge.element(number, place[at])} has the sum of {judge.element(number, other)}"
        details.append(f"{subject}; so for {np.count_nonzero(elsewhere)} of {wrong.size} elements")
        details += [how] if how else []
    elif own := sums.words(judge, number, place[at].tolist(), int(ids[flat[at]])):
        details.append(own)
    value = tuple(place[at].tolist())
    details.append(f"{judge.element(number, value)} is {values[value]:g}, and must be {wanted[value]:g}")
    return Diagnostic(kind, words, details=tuple(details), count=len(flat), operand=operand)


def _counts(tape: Tape, log: Log, threads: int, seconds: float) -> str:
    products = [event for event in tape.events if isinstance(event, Execution)]
    count = sum(len(event.warps) for event in products)
    parts = []
    if products:
        kinds = ", ".join(sorted({f"{event.form.shape} {event.form.a}" for event in products}))
        places = len({event.place.line for event in products})
        parts.append(f"{count} {products[0].form.name} ({kinds}) in {counted(places, 'place')}")
    return ", ".join([*parts, f"{log.steps} steps of {threads} threads", f"{seconds:.1f} s"])
