// C = A x B, whose K several blocks share. Each adds its part to C when it is its turn, which a number in memory says.
#include <cuda_fp16.h>

#include <cstdint>

#ifndef FENCE
#define FENCE __threadfence()
#endif
#ifndef ACQUIRE
#define ACQUIRE __threadfence()
#endif

extern "C" __global__ void gemm(const half* A, const half* B, float* C, unsigned* turn, int K) {
    const int lane = threadIdx.x, depth = K / gridDim.x, first = blockIdx.x * depth;
    float d[4] = {};
    for (int k = first; k < first + depth; k += 16) {
        const half* a = A + lane / 4 * K + k + lane % 4 * 2;
        const half* b = B + lane / 4 * K + k + lane % 4 * 2;
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                     "{%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(*(const uint32_t*)a), "r"(*(const uint32_t*)(a + 8 * K)), "r"(*(const uint32_t*)(a + 8)),
                       "r"(*(const uint32_t*)(a + 8 * K + 8)), "r"(*(const uint32_t*)b),
                       "r"(*(const uint32_t*)(b + 8)));
    }
    if (lane == 0) while (atomicAdd(turn, 0) != blockIdx.x);
    ACQUIRE;
    __syncwarp();
    for (int i = 0; i < 4; i++) C[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] += d[i];
    FENCE;
    __syncwarp();
    if (lane == 0) atomicAdd(turn, 1);
}
