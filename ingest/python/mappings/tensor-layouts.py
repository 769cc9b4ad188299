"""The bits that ldmatrix and stmatrix move, as tensor-layouts has them: of each thread, bits of rows of 128."""

from tensor_layouts import atoms_nv


def held(atom, side):
    """The function (lane, value) -> (row, column) of the 16-bit values in registers, its matrices below one another."""
    layout = getattr(getattr(atoms_nv, atom), f"{side}_layout_bits")
    return lambda lane, value: divmod(layout(lane, 16 * value) // 16, 8)


def address(atom, side):
    """The function (row, 0) -> (lane, 0) of the rows whose address a lane passes: of equal ones, the first lane's."""
    layout = getattr(getattr(atoms_nv, atom), f"{side}_layout_bits")
    lanes = {layout(lane, 0) // 128: lane for lane in reversed(range(32))}
    return lambda row, _: (lanes[row], 0)
