"""Kernels on simulated threads: instructions of threads and mma a second, and what the report takes of the time.

python -m tests.benchmarks.trace [K]
"""

import resource
import sys
from math import prod

import lanemap
from lanemap.capture.machine import findings

from ..machine.conftest import compiled_by_nvcc
from .ratio import processor

K = int(sys.argv[1]) if sys.argv[1:] else 4096
GEMM = [f"A=f16[128,{K}]", f"B=f16[128,{K}]", "C=f32[128,128]", f"K={K}"]
TMA = [f"A=f16[128,{K}]", f"B=f16[64,{K}]", "C=f32[128,64]", "mA=map(A,box=64x64,swizzle=128B)"]
TMA += ["mB=map(B,box=64x64,swizzle=128B)", "mC=map(C,box=64x64)", f"K={K}"]
ATTENTION = ["Q=f16[64,64]", "K=f16[256,64]", "V=f16[256,64]", "O=f32[64,64]", "keys=256", "scale=0.125"]
PRODUCT = "C[m,n] = A[m,k] B[n,k]"
STEPS = "S[m,n] = 0.125 Q[m,d] K[n,d]; P = softmax(S); O[m,e] = P[m,n] V[n,e]"

KERNELS = {
    f"128 x 128 of C, K = {K}, by mma: 10 s": ("gemm", "sm_80", GEMM, PRODUCT, {"block": 64, "grid": (4, 4)}),
    f"128 x 64 of C, K = {K}, by wgmma and TMA": ("tma", "sm_90a", TMA, PRODUCT, {"block": 160, "grid": (1, 2)}),
    "attention of 64 x 64, 4 blocks of keys: 1 s": ("attention", "sm_80", ATTENTION, STEPS, {"block": 128}),
}

judged = findings.Judge.follow
spent = 0.0


def timed(*given, **more):
    """Judge, and count the time of that."""
    global spent
    start = processor()
    judged(*given, **more)
    spent += processor() - start


def main() -> None:
    """Trace each kernel twice, and say what the second time took."""
    global spent
    findings.Judge.follow = timed  # type: ignore[method-assign]
    with lanemap.open() as database:
        for name, (file, target, given, product, how) in KERNELS.items():
            text = compiled_by_nvcc(file, target)
            database.trace(text, [each.replace(str(K), "64") for each in given], product, **how)
            spent, start = 0.0, processor()
            found = database.trace(text, given, product, **how)
            taken = processor() - start
            found.check()
            count, steps = int(found.counts.split()[0]), int(found.counts.partition(" steps")[0].split()[-1])
            threads = steps * how["block"] * prod(how.get("grid", (1,)))
            print(f"{name}: {taken:.1f} s, of which the report {spent:.1f} s")
            print(f"  {count / taken:,.0f} products and {threads / taken:,.0f} instructions of threads a second")
    print(f"memory at most: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB (1024)")


if __name__ == "__main__":
    main()
