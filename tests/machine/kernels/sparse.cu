// C = A x B by mma.sp: A has half of each row, and E says which; a warp has 16 x 8 of C for each block.
#include <cuda_fp16.h>

#include <cstdint>

// Which metadata a thread supplies: columns by its number in the group of four, and the row.
#ifndef CHUNK
#define CHUNK member % 2
#define ROW row
#endif

extern "C" __global__ void gemm(const half* A, const uint16_t* E, const half* B, float* C, int K) {
    const int lane = threadIdx.x, group = lane / 4, member = lane % 4;
    const int row = blockIdx.y * 16 + group, column = blockIdx.x * 8 + group;
    float d[4] = {};
    for (int k = 0; k < K; k += 32) {
        const half* a = A + row * (K / 2) + k / 2 + member * 2;
        const half* b = B + column * K + k + member * 2;
        const uint32_t a0 = *(const uint32_t*)a, a1 = *(const uint32_t*)(a + 8 * (K / 2));
        const uint32_t a2 = *(const uint32_t*)(a + 8), a3 = *(const uint32_t*)(a + 8 * (K / 2) + 8);
        const uint32_t b0 = *(const uint32_t*)b, b1 = *(const uint32_t*)(b + 8);
        const uint32_t b2 = *(const uint32_t*)(b + 16), b3 = *(const uint32_t*)(b + 24);
        const uint16_t* e = E + (ROW) * (K / 16) + k / 16 + (CHUNK);
        const uint32_t metadata = e[0] | e[8 * (K / 16)] << 16;
        asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                     "{%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, 0x0;"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "r"(b2), "r"(b3), "r"(metadata));
    }
    for (int i = 0; i < 4; i++)
        C[(row + i / 2 * 8) * gridDim.x * 8 + blockIdx.x * 8 + member * 2 + i % 2] = d[i];
}
