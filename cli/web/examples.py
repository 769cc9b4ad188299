"""Queries to begin with, on the page for SQL."""

#: What each one asks, and the query.
EXAMPLES = {
    "Which columns does each register of A hold?": """\
SELECT reg, MIN(col) AS first, MAX(col) AS last FROM layout
WHERE shape = 'm16n8k16' AND type = 'f16' AND role = 'A' AND instruction = 'mma'
  AND source = 'ptx-isa-9.1+errata'
GROUP BY reg ORDER BY reg""",
    "What does lane 13 hold?": """\
SELECT role, reg, slot, row, col FROM layout
WHERE shape = 'm16n8k16' AND type = 'bf16' AND instruction = 'mma' AND lane = 13
  AND source = 'ptx-isa-9.1+errata'
ORDER BY role, reg, slot""",
    "Where does a measurement contradict the document?": """\
SELECT shape, type, role, COUNT(*) AS elements
FROM layout AS document JOIN layout AS measured USING (instruction, shape, type, role, lane, reg, slot)
WHERE document.source = 'ptx-isa-9.1' AND measured.source = 'h200-sm_90a' AND shape = 'm16n8k256'
  AND measured.col <> document.col
GROUP BY shape, type, role""",
    "How many elements does each source have?": """\
SELECT source, COUNT(*) AS elements FROM layout WHERE instruction = 'mma' GROUP BY source""",
}
