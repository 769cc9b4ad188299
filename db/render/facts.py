"""The facts about a fragment that stand above it in a terminal, page, picture, notation or report."""

from collections.abc import Collection, Iterator, Sequence

from ..isa.instructions import axis_name, instruction
from ..layout.fragment import Fragment
from ..text import spans


def facts(fragment: Fragment) -> dict[str, str]:
    """All facts by label, in the order in which they are shown, without those that the source does not give.

    ``operand`` names the fragment with its size, ``per lane`` counts registers and slots, ``in memory`` bytes. Then
    come where the source has it from, what was done to it, and last its ``formula``, which may have several lines. The
    formula of one instruction is none of a tile.
    """
    cited, part = fragment.citation, part_of_slot(fragment)
    narrow = f", of which {part}" if part else ""
    texts = {
        "operand": heading(fragment),
        "memory" if fragment.tile else "per lane": held(fragment) + narrow,
        "slots": _ends(fragment),
        "source": fragment.source,
        "note": fragment.note,
        "section": cited.section and " #".join(filter(None, (cited.section, cited.anchor))),
        "same as": cited.same_as and f"section {cited.same_as}",
        "also in": cited.also and f"section {cited.also}",
        "figure": cited.figures,
        "true of": true_of(fragment),
        "origin": cited.origin,
        "mended": cited.mended,
        "erratum": cited.erratum,
        "evidence": cited.evidence,
        "formula": None if fragment.tiling else cited.formula,
    }
    return {label: text for label, text in texts.items() if text}


def held(fragment: Fragment) -> str:
    """What holds it: the registers of a lane and their slots, or bytes of shared memory."""
    registers, slots, bits = fragment.registers, fragment.slots, fragment.slot_bits
    in_each = f"{slots} slot{'s' * (slots > 1)} of {bits} bit{'s' * (bits > 1)} in each"
    word = unit(fragment)
    if of := fragment.tile:
        return (
            f"{of.size} bytes from a multiple of {of.alignment}, as {word}s of {fragment.register_bits} bits, {in_each}"
        )
    return f"{registers} {word}{'s' * (registers > 1)} of {fragment.register_bits} bits, {in_each}"


def _ends(fragment: Fragment) -> str:
    """Which slots are at the low and the high end of a register or word; empty where there is one."""
    last = fragment.slots - 1
    return f"0 is the low {'half' if last == 1 else 'end'} of a {unit(fragment)}, {last} the high" if last else ""


def unit(fragment: Fragment) -> str:
    """What its slots are in: a register, a word of shared memory, or a column of Tensor Memory."""
    return {"shared memory": "word", "Tensor Memory": "memory column"}.get(fragment.memory, "register")


def legend(fragment: Fragment, labels: Collection[str]) -> Iterator[str]:
    """What the marks mean in the labels of a picture of its matrix, and an axis that is none of M, N and K."""
    if any("|" in label for label in labels):
        yield "0|1: either slot may hold the cell, as the metadata says; brackets enclose the columns to choose from."
    if any("+" in label for label in labels):
        yield "+: each of these slots holds the cell."
    if "S" in axes(fragment):
        yield "S counts the blocks along K, each of which has a scale of its own."


def true_of(fragment: Fragment) -> str:
    """Which targets its rows hold for, where these are not all targets of its instruction; else empty."""
    alone = instruction(fragment.instruction).per_architecture and fragment.has_rows
    return f"the architecture of {fragment.source} alone: documents leave it open" if alone else ""


def part_of_slot(fragment: Fragment) -> str:
    """Which bits of its slot an element occupies; empty where it fills the slot."""
    bits = fragment.occupied_bits
    return f"{fragment.type} has bits {spans(bits)}" if len(bits) < fragment.slot_bits else ""


def where(fragment: Fragment) -> str:
    """Where in its source it stands: section, anchor and figure, or file and line of an import; may be empty."""
    texts = facts(fragment)
    parts = [f"{label} {texts[label]}" for label in ("section", "figure") if label in texts]
    return " ".join([*parts, texts.get("origin", "")]).strip()


def provenance(fragments: Sequence[Fragment]) -> Iterator[str]:
    """A line for each source of the fragments, with the sections that they come from."""
    sources = dict.fromkeys(str(fragment.source) for fragment in fragments)
    several = len(sources) > 1 and len({fragment.role for fragment in fragments}) > 1
    for source in sources:
        of_source = [fragment for fragment in fragments if fragment.source == source]
        roles = ", ".join(dict.fromkeys(fragment.role for fragment in of_source))
        label = f"Source of {roles}" if several else "Source"
        citations = [fragment.citation for fragment in of_source]
        sections = ", ".join(dict.fromkeys(f"section {citation.section}" for citation in citations if citation.section))
        corrected = "corrected: see lanemap list errata" if any(citation.erratum for citation in citations) else ""
        alone = "true of its architecture alone" if any(map(true_of, of_source)) else ""
        yield ", ".join(filter(None, (f"{label}: {source}", sections, corrected, alone)))


def heading(fragment: Fragment) -> str:
    """The line that names a fragment, with its size."""
    major = f"{fragment.major} major" if fragment.major else ""
    return ", ".join(filter(None, (f"{name(fragment)}: {size(fragment)}", major, selector(fragment))))


def name(fragment: Fragment) -> str:
    """The operand that a fragment belongs to, without its major and selector."""
    tile = [str(fragment.tiling)] if fragment.tiling else []
    return ", ".join([str(fragment.key._replace(major=None, selector=None)), *tile])


def size(fragment: Fragment) -> str:
    """Rows and columns, with what they count."""
    counted = zip(fragment.dimensions, axes(fragment), strict=True)
    return " x ".join(f"{extent} ({axis})" if axis != "1" else str(extent) for extent, axis in counted)


def selector(fragment: Fragment) -> str:
    """The sparsity selector; empty where there is none."""
    return "" if fragment.selector is None else f"selector {fragment.selector}"


def axes(fragment: Fragment) -> list[str]:
    """What the rows and the columns of the matrix count: M, N or K; lanes and columns of Tensor Memory."""
    return [axis_name(axis) for axis in fragment.key.axes]
