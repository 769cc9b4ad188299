"""Fragments that contradict each other, as sources that do not."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ..isa.instructions import Key
from .fragment import Fragment, Source


def claim_sets(
    source: Source, units: Iterable[tuple[str, Sequence[Fragment]]], *, whole: bool = False
) -> Iterator[Source]:
    """The source with the fragments of some units, and one more for each unit that contradicts those before it.

    A unit is something that a library keeps together, such as an atom. A unit that contradicts others is compared by
    itself: pooled with them, operands that are only renumbered alike would look wrong.

    Args:
        source: without fragments.
        units: the fragments of each unit, with its name.
        whole: for units of a single operand, whether further sources also get the other fragments of the first one.
    """
    groups: list[tuple[str, dict[Key, Fragment]]] = [(source.name, {})]
    for name, fragments in units:
        by_key = {fragment.key: fragment for fragment in fragments}
        for _, group in groups:
            if all(key not in group or group[key].same_layout(fragment) for key, fragment in by_key.items()):
                group.update({key: fragment for key, fragment in by_key.items() if key not in group})
                break
        else:
            groups.append((f"{source.name}:{name}", by_key))
    for name, group in groups:
        title = source.title + name.removeprefix(source.name).replace(":", ", ")
        chosen = {**groups[0][1], **group} if whole else group
        yield replace(source, name=name, title=title, fragments=list(chosen.values()))
