"""PTX's formula notation, parsed and evaluated: the formulas of the documentation are the input as they stand."""

from .evaluation import Cells, coverage, evaluate_at, value_at
from .grammar import Clause, Formula, FormulaError, parse

__all__ = ["Cells", "Clause", "Formula", "FormulaError", "coverage", "evaluate_at", "parse", "value_at"]
