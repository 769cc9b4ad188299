// O = softmax(scale Q K^T) V over blocks of 64 keys, by ldmatrix and mma: four warps with 16 rows of Q each, a head of 64.
#include <cuda_fp16.h>

#include <cstdint>

constexpr int HEAD = 64, KEYS = 64, PITCH = 72;

__device__ uint32_t address(const void* pointer) { return static_cast<uint32_t>(__cvta_generic_to_shared(pointer)); }

__device__ void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ float across(float value, bool adds) {  // the four lanes of a row
    for (int other = 1; other < 4; other *= 2) {
        const float its = __shfl_xor_sync(~0u, value, other);
        value = adds ? value + its : fmaxf(value, its);
    }
    return value;
}

extern "C" __global__ void attention(const half* Q, const half* K, const half* V, float* O, int keys, float scale) {
    __shared__ alignas(16) half k_tile[KEYS * PITCH], v_tile[KEYS * PITCH];
    const int thread = threadIdx.x, lane = thread % 32, row = blockIdx.x * 64 + thread / 32 * 16 + lane / 4;
    uint32_t q[4][4];
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 4; i++)
            q[k][i] = *(const uint32_t*)&Q[(row + i % 2 * 8) * HEAD + k * 16 + i / 2 * 8 + lane % 4 * 2];
    float o[8][4] = {}, most[2] = {-INFINITY, -INFINITY}, sum[2] = {};
    for (int first = 0; first < keys; first += KEYS) {
        for (int chunk = thread; chunk < KEYS * HEAD / 8; chunk += 128) {
            const int line = chunk / 8, column = chunk % 8 * 8;
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address(&k_tile[line * PITCH + column])),
                         "l"(K + (first + line) * HEAD + column));
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address(&v_tile[line * PITCH + column])),
                         "l"(V + (first + line) * HEAD + column));
        }
        asm volatile("cp.async.commit_group;");
        asm volatile("cp.async.wait_group 0;");
        __syncthreads();
        float s[8][4] = {};
        for (int n = 0; n < 8; n++)
            for (int k = 0; k < 4; k += 2) {
                uint32_t b[4];
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                             : "r"(address(&k_tile[(n * 8 + lane % 8) * PITCH + k * 16 + lane / 8 * 8])));
                multiply(s[n], q[k], b[0], b[1]);
                multiply(s[n], q[k + 1], b[2], b[3]);
            }
        for (int half_ = 0; half_ < 2; half_++) {
            float own = -INFINITY, total = 0;
            for (int n = 0; n < 8; n++) own = fmaxf(own, fmaxf(s[n][half_ * 2], s[n][half_ * 2 + 1]));
            const float now = fmaxf(most[half_], across(own, false) * scale);
            const float less = exp2f((most[half_] - now) * 1.4426950408889634f);
            for (int n = 0; n < 8; n++)
                for (int i = half_ * 2; i < half_ * 2 + 2; i++) {
                    s[n][i] = exp2f((s[n][i] * scale - now) * 1.4426950408889634f);
                    total += s[n][i];
                    o[n][i] *= less;
                }
            sum[half_] = sum[half_] * less + across(total, true);
            most[half_] = now;
        }
        for (int k = 0; k < 4; k++) {
            uint32_t p[4];
            for (int i = 0; i < 4; i++) {
                const half2 pair = __floats2half2_rn(s[k * 2 + i / 2][i % 2 * 2], s[k * 2 + i / 2][i % 2 * 2 + 1]);
                p[i] = *(const uint32_t*)&pair;
            }
            for (int n = 0; n < 8; n += 2) {
                uint32_t b[4];
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                             : "r"(address(&v_tile[(k * 16 + lane % 16) * PITCH + n * 8 + lane / 16 * 8])));
                multiply(o[n], p, b[0], b[1]);
                multiply(o[n + 1], p, b[2], b[3]);
            }
        }
        __syncthreads();
    }
    for (int n = 0; n < 8; n++)
        for (int i = 0; i < 4; i++)
            O[(row + i / 2 * 8) * HEAD + n * 8 + lane % 4 * 2 + i % 2] = o[n][i] / sum[i / 2];
}
