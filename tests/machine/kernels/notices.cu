// How a block waits for what another one has written: as CUDA's headers and samples do.
#include <cooperative_groups.h>
#include <cuda/atomic>

#define KERNEL(name) extern "C" __global__ void name(float* part, int* flag, float* out)

KERNEL(whole_grid) {
    const int t = threadIdx.x, at = blockIdx.x * 64 + t;
    part[at] = t;
    cooperative_groups::this_grid().sync();
    out[at] = part[at ^ 65];
}

// The first block waits for the second one, in one thread of it.
template <typename Tell, typename Wait>
__device__ void waits(float* part, float* out, Tell tell, Wait wait) {
    const int t = threadIdx.x;
    if (blockIdx.x) {
        part[t] = t;
        tell(t);
    } else {
        wait(t);
        out[t] = part[t ^ 33];
    }
}

template <cuda::std::memory_order Store, cuda::std::memory_order Load>
__device__ void orders(float* part, int* flag, float* out) {
    cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
    waits(part, out, [&](int t) { __syncthreads(); if (!t) ready.store(1, Store); },
          [&](int t) { if (!t) while (ready.load(Load) != 1); __syncthreads(); });
}

KERNEL(released) { orders<cuda::std::memory_order_release, cuda::std::memory_order_acquire>(part, flag, out); }
KERNEL(sequential) { orders<cuda::std::memory_order_seq_cst, cuda::std::memory_order_seq_cst>(part, flag, out); }
KERNEL(not_acquired) { orders<cuda::std::memory_order_release, cuda::std::memory_order_relaxed>(part, flag, out); }
KERNEL(not_released) { orders<cuda::std::memory_order_relaxed, cuda::std::memory_order_acquire>(part, flag, out); }

// The last block that counts adds up what all have written.
template <typename Out>
__device__ void last(float* part, int* flag, Out* out, bool fences) {
    __shared__ bool is_last;
    const int t = threadIdx.x;
    out[blockIdx.x * 64 + t] = t;
    __threadfence();
    __syncthreads();
    if (t == 0) is_last = atomicInc((unsigned*)flag, gridDim.x) == gridDim.x - 1;
    if (fences) __threadfence();
    __syncthreads();
    if (is_last) part[t] = out[t] + out[64 + (t ^ 33)];
}

KERNEL(last_of_all) { last(part, flag, out, true); }
KERNEL(last_reads_volatile) { last(part, flag, (volatile float*)out, false); }
KERNEL(last_not_acquired) { last(part, flag, out, false); }
