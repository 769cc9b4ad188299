// C = A x B by wgmma from tiles that a warp of its own copies by tensor maps, in two stages with full and empty.
#include <cuda.h>
#include <cuda_fp16.h>

#include <cstdint>

__device__ uint32_t address(const void* pointer) { return static_cast<uint32_t>(__cvta_generic_to_shared(pointer)); }

__device__ uint64_t descriptor(const void* pointer) {
    return (uint64_t(address(pointer)) & 0x3FFFF) >> 4 | 0x4000004000010000;
}

__device__ void wait(uint64_t* barrier, int parity) {
    asm volatile(
        "{\n.reg .pred done;\nagain:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra.uni over;\nbra.uni again;\nover:\n}" ::"r"(
            address(barrier)),
        "r"(parity));
}

__device__ void copy(void* to, const CUtensorMap* from, int k, int row, uint64_t* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
            address(to)),
        "l"(from), "r"(k), "r"(row), "r"(address(barrier)));
}

extern "C" __global__ void gemm(const __grid_constant__ CUtensorMap mA, const __grid_constant__ CUtensorMap mB,
                                const __grid_constant__ CUtensorMap mC, int K) {
    __shared__ alignas(1024) half a_tile[2][64 * 64], b_tile[2][64 * 64];
    __shared__ alignas(128) float c_tile[64 * 64];
    __shared__ uint64_t full[2], empty[2];
    const int thread = threadIdx.x;
    if (thread == 0) {
        for (int stage = 0; stage < 2; stage++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(&full[stage])));
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 128;" ::"r"(address(&empty[stage])));
        }
        asm volatile("fence.mbarrier_init.release.cluster;");
    }
    __syncthreads();
    if (thread >= 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (thread == 128) {
            for (int step = 0; step < K / 64; step++) {
                const int stage = step % 2;
                wait(&empty[stage], step / 2 % 2 ^ 1);
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 16384;" ::"r"(address(&full[stage])));
                copy(a_tile[stage], &mA, step * 64, blockIdx.y * 64, &full[stage]);
                copy(b_tile[stage], &mB, step * 64, blockIdx.x * 64, &full[stage]);
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float d[32] = {};
    for (int step = 0; step < K / 64; step++) {
        const int stage = step % 2;
        wait(&full[stage], step / 2 % 2);
        asm volatile("wgmma.fence.sync.aligned;");
        for (int k = 0; k < 4; k++) {
            const uint64_t a = descriptor(a_tile[stage]) + k * 2, b = descriptor(b_tile[stage]) + k * 2;
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
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(&empty[stage])));
    }
    for (int i = 0; i < 32; i++)
        c_tile[(thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8) * 64 + i / 4 * 8 + thread % 4 * 2 + i % 2] = d[i];
    asm volatile("fence.proxy.async.shared::cta;");
    asm volatile("bar.sync 1, 128;");
    if (thread == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&mC),
                     "r"(blockIdx.x * 64), "r"(blockIdx.y * 64), "r"(address(c_tile)));
        asm volatile("cp.async.bulk.commit_group;");
        asm volatile("cp.async.bulk.wait_group 0;");
    }
}
