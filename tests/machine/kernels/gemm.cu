// C = A x B by ldmatrix and mma: two warps, 32 x 32 of C for each block, K in two halves where SPLIT adds them up.
#include <cuda_fp16.h>

#include <cstdint>

__device__ uint32_t address(const void* pointer) { return static_cast<uint32_t>(__cvta_generic_to_shared(pointer)); }

extern "C" __global__ void gemm(const half* A, const half* B, float* C, int K) {
    __shared__ half a_tile[2][32 * 32];
    __shared__ half b_tile[2][32 * 32];
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const half* a_rows = A + blockIdx.y * 32 * K;
    const half* b_rows = B + blockIdx.x * 32 * K;
    auto load = [&](int stage, int k) {
        for (int chunk = thread; chunk < 128; chunk += 64) {
            const int row = chunk / 4, column = chunk % 4 * 8;
            const uint32_t a = address(&a_tile[stage][row * 32 + (column ^ row / 2 % 4 * 8)]);
            const uint32_t b = address(&b_tile[stage][row * 32 + (column ^ row / 2 % 4 * 8)]);
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(a), "l"(a_rows + row * K + k + column));
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(b), "l"(b_rows + row * K + k + column));
        }
        asm volatile("cp.async.commit_group;");
    };
    const int steps = K / 32 / gridDim.z, first = blockIdx.z * steps;
    float d[4][4] = {};
    load(0, first * 32);
    for (int step = 0; step < steps; step++) {
        if (step + 1 < steps) {
            load((step + 1) % 2, (first + step + 1) * 32);
            asm volatile("cp.async.wait_group 1;");
        } else {
            asm volatile("cp.async.wait_group 0;");
        }
        __syncthreads();
        for (int k = 0; k < 32; k += 16) {
            uint32_t a[4], b[2];
            const int row = warp * 16 + lane % 16, column = k + lane / 16 * 8;
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                         : "r"(address(&a_tile[step % 2][row * 32 + (column ^ row / 2 % 4 * 8)])));
            for (int n = 0; n < 4; n++) {
                const int line = n * 8 + lane % 8, place = k + lane / 8 % 2 * 8;
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                             : "=r"(b[0]), "=r"(b[1])
                             : "r"(address(&b_tile[step % 2][line * 32 + (place ^ line / 2 % 4 * 8)])));
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                             "{%8, %9}, {%0, %1, %2, %3};"
                             : "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
                             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
            }
        }
        __syncthreads();
    }
    for (int n = 0; n < 4; n++)
        for (int i = 0; i < 4; i++) {
            const int row = blockIdx.y * 32 + warp * 16 + lane / 4 + i / 2 * 8;
            const int column = blockIdx.x * 32 + n * 8 + lane % 4 * 2 + i % 2;
#ifdef SPLIT
            atomicAdd(&C[row * gridDim.x * 32 + column], d[n][i]);
#else
            C[row * gridDim.x * 32 + column] = d[n][i];
#endif
        }
}
