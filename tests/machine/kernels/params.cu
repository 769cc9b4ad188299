// A product whose arguments are one struct, as kernels of CUTLASS take them.
#include <cuda_fp16.h>

struct Params {
    const half *a, *b;
    float *c;
    int depth;
    float scale;
    long long pitch;
};

__global__ void product(__grid_constant__ const Params p) {
    int lane = threadIdx.x, group = lane / 4, pair = lane % 4 * 2;
    float c[4] = {};
    for (int k = 0; k < p.depth; k += 16) {
        auto at = [&](const half* from, int row, int col) {
            return *reinterpret_cast<const unsigned*>(from + row * p.pitch + k + col);
        };
        unsigned a[4] = {at(p.a, group, pair), at(p.a, group + 8, pair), at(p.a, group, pair + 8),
                         at(p.a, group + 8, pair + 8)};
        unsigned b[2] = {at(p.b, group, pair), at(p.b, group, pair + 8)};
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
    for (int i = 0; i < 4; ++i) p.c[(group + i / 2 * 8) * 8 + pair + i % 2] = p.scale * c[i];
}
