// C = A x B by mma: B has two numbers of 4 bits in a byte, which become halves in the way that WAY says.
#include <cuda_fp16.h>

#include <cstdint>

// Which number of its byte comes first: 0 is right.
#ifndef FIRST
#define FIRST 0
#endif

__device__ half number(const uint8_t* row, int at) {
    at ^= FIRST;
    const uint32_t word = *(const uint32_t*)(row + at / 8 * 4), byte = row[at / 2], by = at % 8 * 4, upper = at % 2;
#if WAY == 0  // a byte, shifted
    return __int2half_rn(upper ? byte >> 4 : byte & 0xF);
#elif WAY == 1  // a byte, masked and shifted
    return __int2half_rn(upper ? (byte & 0xF0) >> 4 : byte & 0x0F);
#elif WAY == 2  // a word, shifted by what is not known before
    return __int2half_rn(word >> by & 0xF);
#elif WAY == 3  // bits of a half, from a word
    const uint16_t bits = (word >> by & 0x000F) | 0x6400;
    return __hsub(__ushort_as_half(bits), __float2half(1024.0f));
#elif WAY == 4  // the upper one where it is
    const uint16_t bits = upper ? (byte & 0xF0) | 0x6400 : (byte & 0x0F) | 0x6400;
    const half moved = __hsub(__ushort_as_half(bits), __float2half(1024.0f));
    return upper ? __hmul(moved, __float2half(1.0f / 16)) : moved;
#elif WAY == 5  // to the top of a register and down again
    return __int2half_rn((int)(word << (28 - by)) >> 28);
#elif WAY == 6  // a field
    uint32_t field;
    asm("bfe.u32 %0, %1, %2, 4;" : "=r"(field) : "r"(word), "r"(by));
    return __int2half_rn(field);
#else  // four at once, and a byte of them
    const uint32_t four = upper ? word >> 4 & 0x0F0F0F0F : word & 0x0F0F0F0F;
    return __int2half_rn(__byte_perm(four, 0, 0x4440 | by / 8));
#endif
}

__device__ uint32_t pair(half low, half high) {
    return __half_as_ushort(low) | (uint32_t)__half_as_ushort(high) << 16;
}

extern "C" __global__ void gemm(const half* A, const uint8_t* B, float* C) {
    const int lane = threadIdx.x, group = lane / 4, k = lane % 4 * 2;
    const half *a = A + group * 16 + k, *below = a + 8 * 16;
    const uint32_t a0 = *(const uint32_t*)a, a1 = *(const uint32_t*)below;
    const uint32_t a2 = *(const uint32_t*)(a + 8), a3 = *(const uint32_t*)(below + 8);
    const uint8_t* row = B + group * 8;
    const uint32_t b0 = pair(number(row, k), number(row, k + 1)), b1 = pair(number(row, k + 8), number(row, k + 9));
    float d[4] = {};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    for (int i = 0; i < 4; i++) C[(group + i / 2 * 8) * 8 + k + i % 2] = d[i];
}
