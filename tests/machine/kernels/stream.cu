// C = A x B where blocks share all steps of K evenly: a tile of 16 x 8 that several blocks work at is added up by the
// first of them, which waits until the others have written their parts and said so.
#include <cuda_fp16.h>

#include <cstdint>

extern "C" __global__ void gemm(const half* A, const half* B, float* C, float* parts, unsigned* ready, int N, int K, int tiles) {
    const int lane = threadIdx.x, steps = K / 16, every = tiles * steps;
    const int each = (every + gridDim.x - 1) / gridDim.x;
    int step = blockIdx.x * each;
    const int end = min(step + each, every);
    while (step < end) {
        const int tile = step / steps, first = step, last = min(end, (tile + 1) * steps);
        const int row = tile / (N / 8) * 16 + lane / 4, column = tile % (N / 8) * 8;
        float d[4] = {};
        for (; step < last; step++) {
            const half* a = A + row * K + step % steps * 16 + lane % 4 * 2;
            const half* b = B + (column + lane / 4) * K + step % steps * 16 + lane % 4 * 2;
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                         "{%8, %9}, {%0, %1, %2, %3};"
                         : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                         : "r"(*(const uint32_t*)a), "r"(*(const uint32_t*)(a + 8 * K)), "r"(*(const uint32_t*)(a + 8)),
                           "r"(*(const uint32_t*)(a + 8 * K + 8)), "r"(*(const uint32_t*)b),
                           "r"(*(const uint32_t*)(b + 8)));
        }
        if (first % steps) {  // the part of a tile that another block began
            for (int i = 0; i < 4; i++) parts[(blockIdx.x * 4 + i) * 32 + lane] = d[i];
            __threadfence();
            __syncwarp();
            if (lane == 0) atomicExch(&ready[blockIdx.x], 1u);
            continue;
        }
        for (int other = blockIdx.x + 1; last == end && other * each < (tile + 1) * steps; other++) {
            unsigned done;
            do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(done) : "l"(&ready[other]) : "memory");
            while (!done);
            for (int i = 0; i < 4; i++) d[i] += parts[(other * 4 + i) * 32 + lane];
        }
        for (int i = 0; i < 4; i++) C[(row + i / 2 * 8) * N + column + lane % 4 * 2 + i % 2] = d[i];
    }
}
