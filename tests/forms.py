"""The table of forms, by what tests ask of it."""

from lanemap.db.isa.forms import forms

#: All forms, and those that a capture can measure.
EVERY = forms()
CAPTURED = [form for form in EVERY if form.captured]


def _is_pure(form):
    """Whether it is of a product whose A and B, and C and D, have the same type."""
    return not form.role and form.a == form.b and form.c == form.d


_PURE = [form for form in EVERY if _is_pure(form)]

#: Those of mma and mma.sp, the ones with a kind apart.
DENSE_FORMS = [form for form in _PURE if form.name == "mma" and not form.kind]
SPARSE_FORMS = [form for form in _PURE if form.name == "mma.sp" and not form.kind]
NARROW_FORMS = [form for form in _PURE if form.kind]
FORMS = [*DENSE_FORMS, *SPARSE_FORMS, *NARROW_FORMS]
MIXED = [form for form in EVERY if form.name in ("mma", "mma.sp") and not _is_pure(form)]

#: Those of the other families.
WARPGROUP = [form for form in CAPTURED if form.name in ("wgmma", "wgmma.sp")]
WMMA = [form for form in EVERY if form.name == "wmma" and not form.role]
#: What a tensor map writes is in the map, and not in the mnemonic.
BOXES = [form for form in CAPTURED if form.role == "t"]
SPELT = [form for form in EVERY if not (form.captured and form.role == "t")]
MOVES = [form for form in CAPTURED if form.role and form.role != "t"]
