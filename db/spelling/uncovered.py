"""Instructions that have no fragment, and why: PTX's by their first words, and a few opcodes of SASS."""

from __future__ import annotations

import re

_INSTRUCTIONS = {
    "it keeps its operands in Tensor Memory and has no registers": "tcgen05.mma",
    "it copies from shared memory to Tensor Memory, and no register holds any of it": "tcgen05.cp",
    "it moves rows within Tensor Memory, and no register holds any of them": "tcgen05.shift",
    "it reduces what it loads; tcgen05.ld only loads": "tcgen05.ld.red",
    "it manages Tensor Memory": "tcgen05.alloc tcgen05.dealloc tcgen05.relinquish_alloc_permit",
    "it only orders others of tcgen05": "tcgen05.wait tcgen05.commit tcgen05.fence",
    "it only orders others of wgmma": "wgmma.fence wgmma.commit_group wgmma.wait_group",
    "it copies memory, and no register holds any of it": (
        "cp prefetch prefetchu discard applypriority tensormap ldgsts utmaldg utmastg ublkcp"
    ),
    "each thread has values of its own, and no matrix is spread over lanes": (
        "ld ldu st mov atom red multimem cvta isspacep mapa cvt abs neg add addc sub subc mul mul24 mad mad24 madc fma "
        "div rem min max sad dp2a dp4a rcp sqrt rsqrt sin cos lg2 ex2 tanh copysign testp set setp selp slct and or "
        "xor not cnot shl shr shf lop3 prmt bfe bfi bfind brev popc clz fns bmsk szext "
        "ldg stg lds sts ldl stl ffma fadd fmul hfma2 hadd2 hmul2 dfma imad iadd3 mufu"
    ),
    "it exchanges values of lanes, which have no rows and columns": "shfl vote match redux",
    "it reads and writes textures and surfaces": "tex tld4 txq suld sust sured suq",
    "it only synchronizes threads": "mbarrier bar barrier fence membar elect activemask",
    "it only controls threads": "syncs griddepcontrol nanosleep setmaxnreg clusterlaunchcontrol",
}
_WHY = {name: reason for reason, names in _INSTRUCTIONS.items() for name in names.split()}
_WORDS = re.compile(r"(?<![\w.:%])[a-z]\w*(?:\.[\w:]+)*", re.IGNORECASE)


def uncovered(text: str) -> str | None:
    """That the first instruction in a text is not covered, and why; None where it is none of these.

    >>> uncovered("fma.rn.f32 %f1, %f2, %f3, %f4;")
    'fma.rn.f32 is not covered: each thread has values of its own, and no matrix is spread over lanes'
    """
    for found in _WORDS.findall(text):
        words = found.lower().split(".")
        whole = (len(words) > 1 or found == text.strip()) and words[1:2] != ["matrix"]  # ld.matrix is ldmatrix
        heads = [".".join(words[:count]) for count in (1, 2, 3)]
        if reason := next((_WHY[head] for head in heads if whole and head in _WHY), None):
            return f"{found} is not covered: {reason}"
    return None
