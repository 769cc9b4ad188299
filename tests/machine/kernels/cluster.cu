// Blocks of a cluster: what each is, and what one reads of another.
#include <cooperative_groups.h>

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
