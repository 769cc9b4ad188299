// Blocks of a cluster: what each is, and what one reads of another.
#include <cooperative_groups.h>

#ifndef RELAXED
#define RELAXED ""
#endif

__global__ void __cluster_dims__(2, 2, 1) ranks(int* out) {
    auto cluster = cooperative_groups::this_cluster();
    cluster.sync();
    auto block = cluster.block_index();
    out[blockIdx.y * gridDim.x + blockIdx.x] =
        cluster.block_rank() * 1000 + cluster.num_blocks() * 100 + block.y * 10 + block.x;
}

__global__ void __cluster_dims__(2, 1, 1) neighbours(int* out) {
    __shared__ int own[32];
    auto cluster = cooperative_groups::this_cluster();
    own[threadIdx.x] = blockIdx.x;
    cluster.sync();
    out[blockIdx.x * 32 + threadIdx.x] = cluster.map_shared_rank(own, cluster.block_rank() ^ 1)[threadIdx.x];
    cluster.sync();
}

// Blocks of a cluster wait for each other, and read in global memory what the other wrote. With RELAXED nothing is told.
__global__ void __cluster_dims__(1, 2, 1) passed(const float* in, float* between, float* out) {
    int block = blockIdx.y * gridDim.x + blockIdx.x, other = (blockIdx.y ^ 1) * gridDim.x + blockIdx.x;
    for (int turn = 0; turn < 2 * blockIdx.y; ++turn) __syncthreads();
    between[block * 64 + threadIdx.x] = in[block * 64 + threadIdx.x] + 1;
    asm volatile("barrier.cluster.arrive" RELAXED ".aligned; barrier.cluster.wait.aligned;" ::: "memory");
    if (blockIdx.x == 3 && blockIdx.y % 2) return;
    out[block * 64 + threadIdx.x] = between[other * 64 + threadIdx.x];
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
