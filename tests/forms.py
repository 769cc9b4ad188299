"""The table of forms, by what tests ask of it."""

from lanemap.db.isa.forms import forms

#: All forms, and those that a capture can measure.
EVERY = forms()
CAPTURED = [form for form in EVERY if form.captured]

#: Those of products whose A and B, and C and D, have the same type.
_PURE = [form for form in EVERY if not form.role and form.a == form.b and form.c == form.d]

#: Those of mma and mma.sp, the ones with a kind apart.
DENSE_FORMS = [form for form in _PURE if form.name == "mma" and not form.kind]
SPARSE_FORMS = [form for form in _PURE if form.name == "mma.sp" and not form.kind]
NARROW_FORMS = [form for form in _PURE if form.kind]
FORMS = [*DENSE_FORMS, *SPARSE_FORMS, *NARROW_FORMS]
MIXED = [form for form in EVERY if form.name in ("mma", "mma.sp") and form not in _PURE]

#: Those of the other families.
WARPGROUP = [form for form in CAPTURED if form.name in ("wgmma", "wgmma.sp")]
WMMA = [form for form in EVERY if form.name == "wmma" and not form.role]
#: What a tensor map writes is in the map, and not in the mnemonic.
BOXES = [form for form in CAPTURED if form.role == "t"]
SPELT = [form for form in EVERY if form not in BOXES]
MOVES = [form for form in CAPTURED if form.role and form not in BOXES]
