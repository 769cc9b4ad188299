// What waits as CUDA's headers do: for so many arrivals, tokens or stages, of which some may never come.
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/semaphore>
#include <cuda/std/chrono>
namespace cg = cooperative_groups;
using Barrier = cuda::barrier<cuda::thread_scope_block>;
using Semaphore = cuda::counting_semaphore<cuda::thread_scope_block>;

extern "C" __global__ void meets(int* out, int count) {
    __shared__ Barrier barrier;
    __shared__ int data[64];
    int t = threadIdx.x;
    if (t == 0) init(&barrier, 64);
    __syncthreads();
    data[t] = t;
    if (t >= count) return;
    barrier.arrive_and_wait();
    out[t] = data[t ^ 1];
}

extern "C" __global__ void gives_up(int* out, int count) {
    __shared__ Barrier barrier;
    int t = threadIdx.x;
    if (t == 0) init(&barrier, 64);
    __syncthreads();
    if (t >= count) return;
    out[t] = barrier.try_wait_for(barrier.arrive(), cuda::std::chrono::seconds(2));
}

extern "C" __global__ void acquires(int* out, int count) {
    __shared__ Semaphore semaphore;
    int t = threadIdx.x;
    if (t == 0) new (&semaphore) Semaphore(0);
    __syncthreads();
    if (t == 0) semaphore.release(count / 2);
    if (t >= 32) semaphore.acquire();
    out[t] = 1;
}

extern "C" __global__ void consumes(int* out, int count) {
    __shared__ alignas(16) char memory[sizeof(cuda::pipeline_shared_state<cuda::thread_scope_block, 2>)];
    __shared__ int data[2][32];
    auto* state = reinterpret_cast<cuda::pipeline_shared_state<cuda::thread_scope_block, 2>*>(memory);
    auto block = cg::this_thread_block();
    if (threadIdx.x == 0) new (state) cuda::pipeline_shared_state<cuda::thread_scope_block, 2>();
    block.sync();
    bool produces = threadIdx.x < 32;
    auto pipe = cuda::make_pipeline(block, state, produces ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
    for (int i = 0; produces && i < count / 16; i++) {
        pipe.producer_acquire();
        data[i & 1][threadIdx.x] = i;
        pipe.producer_commit();
    }
    for (int i = 0; !produces && i < 4; i++) {
        pipe.consumer_wait();
        out[i * 16 + threadIdx.x % 16] = data[i & 1][threadIdx.x - 32];
        pipe.consumer_release();
    }
}
