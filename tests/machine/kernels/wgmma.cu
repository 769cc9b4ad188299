// C = A x B by wgmma: a warpgroup, 64 x 64 of C for each block, both operands in lines of 128 swizzled bytes.
#include <cuda_fp16.h>

#include <cstdint>

__device__ uint64_t descriptor(const void* pointer) {
    const uint64_t address = __cvta_generic_to_shared(pointer);
    return (address & 0x3FFFF) >> 4 | 0x4000004000010000;
}

extern "C" __global__ void gemm(const half* A, const half* B, float* C, int K) {
    __shared__ alignas(1024) half a_tile[64 * 64], b_tile[64 * 64];
    const int thread = threadIdx.x;
    float d[32] = {};
    for (int k = 0; k < K; k += 64) {
        for (int chunk = thread; chunk < 512; chunk += 128) {
            const int row = chunk / 8, column = chunk % 8, place = row * 64 + (column ^ row % 8) * 8;
            *(uint4*)&a_tile[place] = *(const uint4*)&A[(blockIdx.y * 64 + row) * K + k + column * 8];
            *(uint4*)&b_tile[place] = *(const uint4*)&B[(blockIdx.x * 64 + row) * K + k + column * 8];
        }
        asm volatile("fence.proxy.async;");
        __syncthreads();
        asm volatile("wgmma.fence.sync.aligned;");
        for (int step = 0; step < 4; step++) {
            const uint64_t a = descriptor(a_tile) + step * 2, b = descriptor(b_tile) + step * 2;
            asm volatile(
                "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11,"
                " %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31},"
                " %32, %33, 1, 1, 1, 0, 0;"
                : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                  "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                  "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]),
                  "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                  "+f"(d[30]), "+f"(d[31])
                : "l"(a), "l"(b));
        }
        asm volatile("wgmma.commit_group.sync.aligned;");
        asm volatile("wgmma.wait_group.sync.aligned 0;");
        __syncthreads();
    }
    for (int i = 0; i < 32; i++) {
        const int row = blockIdx.y * 64 + thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
        const int column = blockIdx.x * 64 + i / 4 * 8 + thread % 4 * 2 + i % 2;
        C[row * gridDim.x * 64 + column] = d[i];
    }
}
