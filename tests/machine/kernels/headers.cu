// What CUDA's headers make of groups, barriers, pipelines, packed numbers and wide ones, and assembly as people lay it out.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_bf16.h>
#include <cstdio>
namespace cg = cooperative_groups;

extern "C" __global__ void __launch_bounds__(128, 2) whole_grid(const int* __restrict__ in, int* parts, int* out, int n) {
    auto grid = cg::this_grid();
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<32>(block);
    int sum = 0;
    for (int i = grid.thread_rank(); i < n; i += grid.size()) sum += __ldg(in + i);
    sum = cg::reduce(tile, sum, cg::plus<int>());
    __shared__ int of_warp[4];
    if (tile.thread_rank() == 0) of_warp[tile.meta_group_rank()] = sum;
    block.sync();
    if (block.thread_rank() == 0) parts[blockIdx.x] = of_warp[0] + of_warp[1] + of_warp[2] + of_warp[3];
    grid.sync();
    if (grid.thread_rank() == 0) {
        int total = 0;
        for (int i = 0; i < gridDim.x; i++) total += parts[i];
        *out = total;
    }
}

extern "C" __global__ void pairs(const __nv_bfloat162* a, const __nv_bfloat162* b, __nv_bfloat162* out, float* more) {
    int i = threadIdx.x;
    __nv_bfloat162 x = a[i], y = b[i], z = __hfma2(x, y, __hadd2(x, y));
    z = __hsub2(__habs2(__hmax2(z, __hmul2(x, __float2bfloat162_rn(0.5f)))), __hneg2(y));
    out[i] = z;
    more[i] = __low2float(z) + __high2float(__lows2bfloat162(z, x)) + (__hgt(x.x, y.x) ? 1.f : 0.f);
}

extern "C" __global__ void packed(const unsigned* a, const unsigned* b, unsigned* out) {
    int i = threadIdx.x;
    unsigned x = a[i], y = b[i], *at = out + 10 * i;
    at[0] = __vadd4(x, y);
    at[1] = __vsub2(x, y);
    at[2] = __vabsdiffu4(x, y);
    at[3] = __vmaxs4(x, y);
    at[4] = __vsadu4(x, y);
    at[5] = __vavgu4(x, y);
    at[6] = __dp4a(x, y, 7u);
    at[7] = __dp2a_lo((int)x, (int)y, -3);
    at[8] = __fns(x, y & 31, 2);
    at[9] = __fns(x, y & 31, -1);
}

extern "C" __global__ void wide(const long long* a, const long long* b, long long* out) {
    __int128 x = a[threadIdx.x], y = b[threadIdx.x];
    out[threadIdx.x] = x * y / (y + 1) + (x * y >> 40);
}

extern "C" __global__ void barriers(const int* in, int* out) {
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ int held[64];
    if (threadIdx.x == 0) init(&barrier, blockDim.x);
    __syncthreads();
    for (int k = 0; k < 3; k++) {
        held[threadIdx.x] = in[64 * k + threadIdx.x];
        barrier.arrive_and_wait();
        out[64 * k + threadIdx.x] = held[63 - threadIdx.x];
        barrier.wait(barrier.arrive());
    }
}

extern "C" __global__ void pipelined(const float* in, float* out, int n) {
    auto block = cg::this_thread_block();
    extern __shared__ float stages[];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto pipe = cuda::make_pipeline(block, &state);
    float sum = 0;
    for (int k = 0, next = 0; k < n; k++) {
        for (; next < n && next < k + 2; next++) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, stages + 64 * (next % 2), in + 64 * next, sizeof(float) * 64, pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum += stages[64 * (k % 2) + 63 - threadIdx.x];
        pipe.consumer_release();
    }
    if (sum < 0) printf("%f in thread %d\n", sum, threadIdx.x);
    out[threadIdx.x] = sum;
}

template <typename T, int N> __global__ void reversed(const T* in, T* out) {
    extern __shared__ unsigned char bytes[];
    T* held = reinterpret_cast<T*>(bytes);
    held[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = held[N - 1 - threadIdx.x];
}
template __global__ void reversed<double, 64>(const double*, double*);
template __global__ void reversed<short, 64>(const short*, short*);

extern "C" __global__ void assembly(const unsigned* in, unsigned* out) {
    unsigned x = in[threadIdx.x], y, z;
    asm volatile("{ /* braces { and ; in a comment */\n\t.reg .pred p;\n.reg.b32 t<3>, place<0x4>;\n\n setp.ne.u32 p, %1, 0 ;"
                 " // why; not\n@!p mov.b32 t0,7;@p  mov.b32 t0 , %1;  add.u32   t1,t0,(1<<2)+3;\n\t"
                 "mov.v4.u32 {place0, place1,place2, place3},%%ntid;add.u32 t2,t1,place0;mov.b32 %0,t2;}"
                 : "=r"(y) : "r"(x));
    asm("{.reg .b16 lo,hi;\nmov.b32 {lo,hi},%1;\nmov.b32 %0,{hi,lo};}" : "=r"(z) : "r"(y));
    out[threadIdx.x] = z;
}
