"""The kernel of the guide, which tests change."""

from ..test_readme import blocks

#: A tile of A, B and C; B by way of shared memory.
(PRODUCT,) = (block for block in blocks("ptx") if ".entry gemm(" in block)

ARGUMENTS = ["A=f16[16,16]", "B=f16[8,16]", "C=f32[16,8]"]
FORMULA = "C[m,n] = A[m,k] B[n,k]"
