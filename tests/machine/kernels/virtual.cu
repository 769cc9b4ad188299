// Calls of what tables in memory have the addresses of, and variables that begin with an address.
struct Operation {
    float by;
    __device__ explicit Operation(float by) : by(by) {}
    virtual __device__ float of(float x) const = 0;
};
struct Sum : Operation {
    using Operation::Operation;
    __device__ float of(float x) const override { return x + by; }
};
struct Product : Operation {
    using Operation::Operation;
    __device__ float of(float x) const override { return x * by; }
};

__device__ float numbers[4] = {1, 2, 3, 4}, *last = numbers + 3, pi = 3.25f;
__device__ int one(int x) { return x + 1; }
__device__ int two(int x) { return 2 * x; }
__device__ int (*table[2])(int) = {one, two};
__device__ __noinline__ float apply(const Operation* operation, float x) { return operation->of(x); }

__global__ void chosen(float* out) {
    Sum sum(3);
    Product product(2);
    const Operation* operation = &sum;
    if (threadIdx.x % 2) operation = &product;
    out[threadIdx.x] = apply(operation, threadIdx.x) + *last + pi + table[threadIdx.x / 16](threadIdx.x);
}
