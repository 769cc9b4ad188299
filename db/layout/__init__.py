"""One layout by itself: elements, structure, permutations, formulas."""
