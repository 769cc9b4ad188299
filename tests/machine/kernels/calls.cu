// Functions that are called by address, and what is printed and asserted. Another entry calls one that calls itself.
#include <assert.h>
#include <stdio.h>

__device__ __noinline__ int twice(int x) { return 2 * x; }
__device__ __noinline__ int square(int x) { return x * x; }
__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

extern "C" __global__ void either(const int* A, int* C) {
    int (*function)(int) = A[threadIdx.x] % 2 ? twice : square;
    assert(A[threadIdx.x] < 100);
    if (threadIdx.x == 3) printf("%d\n", A[3]);
    C[threadIdx.x] = function(A[threadIdx.x]) + square(3);
}

extern "C" __global__ void itself(int* C) { C[threadIdx.x] = fibonacci(threadIdx.x); }
