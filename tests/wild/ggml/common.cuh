// What ggml's mma.cuh needs of its common.cuh, for a compiler of the host: a thread is a number that can be set.
#pragma once
#include <cstdint>
#define __device__
#define __forceinline__ inline
#define __restrict__
#define GGML_UNUSED(x) (void) (x)
#define GGML_UNUSED_VARS(...)
#define NO_DEVICE_CODE
#define WARP_SIZE 32
#define CUDART_VERSION 13000
enum ggml_type { GGML_TYPE_MXFP4, GGML_TYPE_NVFP4 };
struct half2 { float x, y; };
struct nv_bfloat162 { float x, y; };
struct float2 { float x, y; };
struct block_q4_0 {};
inline struct { int x; } threadIdx;
constexpr int ggml_cuda_get_physical_warp_size() { return 32; }
template <int bytes> void ggml_cuda_memcpy_1(void*, const void*) {}
