// C = A x B with block scales: a warp has 16 x 8 of C for each block. NVF4 is of 4 bits with a scale for each 16 of K.
#include <cstdint>

#ifdef NVF4
#define OPCODE "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"
constexpr int BLOCK = 16;
#else
#define OPCODE "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0"
constexpr int BLOCK = 32;
#endif

// Which row's scale a thread supplies.
#ifndef ROW
#define ROW row + member % 2 * 8
#endif

extern "C" __global__ void gemm(const uint8_t* A, const uint8_t* SFA, const uint8_t* B, const uint8_t* SFB, float* C,
                                int K) {
    const int lane = threadIdx.x, group = lane / 4, member = lane % 4;
    const int row = blockIdx.y * 16 + group, column = blockIdx.x * 8 + group;
#ifdef NVF4
    const int bytes = K / 2;
#else
    const int bytes = K;
#endif
    float d[4] = {};
    for (int k = 0; k < bytes; k += 32) {
        const uint8_t* a = A + row * bytes + k + member * 4;
        const uint8_t* b = B + column * bytes + k + member * 4;
        const uint32_t a0 = *(const uint32_t*)a, a1 = *(const uint32_t*)(a + 8 * bytes);
        const uint32_t a2 = *(const uint32_t*)(a + 16), a3 = *(const uint32_t*)(a + 8 * bytes + 16);
        const uint32_t b0 = *(const uint32_t*)b, b1 = *(const uint32_t*)(b + 16);
        const int blocks = K / BLOCK, scaled = ROW;
#ifdef NVF4
        const uint32_t by_a = *(const uint32_t*)(SFA + scaled * blocks + k / 8);
        const uint32_t by_b = *(const uint32_t*)(SFB + column * blocks + k / 8);
        const uint16_t byte = 0, thread = 1;
#else
        const uint32_t by_a = SFA[scaled * blocks + k / 32] << 8;
        const uint32_t by_b = SFB[column * blocks + k / 32] << 8;
        const uint16_t byte = 1, thread = 1;
#endif
        asm volatile(OPCODE " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, %10, {%12, %13}, %11, "
                     "{%12, %14};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "r"(by_a), "r"(by_b), "h"(byte),
                       "h"(thread), "h"((uint16_t)(thread + 1)));
    }
    for (int i = 0; i < 4; i++)
        C[(row + i / 2 * 8) * gridDim.x * 8 + blockIdx.x * 8 + member * 2 + i % 2] = d[i];
}
