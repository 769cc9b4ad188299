// A product of CUTLASS, multistage by cp.async. The program writes the bytes of the struct that the kernel takes.
#include <cstdio>

#include "cutlass/gemm/device/gemm.h"

using Half = cutlass::half_t;
using Gemm = cutlass::gemm::device::Gemm<
    Half, cutlass::layout::RowMajor, Half, cutlass::layout::ColumnMajor, float, cutlass::layout::RowMajor, float,
    cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80, cutlass::gemm::GemmShape<64, 64, 32>,
    cutlass::gemm::GemmShape<32, 32, 32>, cutlass::gemm::GemmShape<16, 8, 16>,
    cutlass::epilogue::thread::LinearCombination<float, 4, float, float>,
    cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>, 3>;
using Kernel = Gemm::GemmKernel;

template __global__ void cutlass::Kernel<Kernel>(Kernel::Params);

int main() {
    auto half = [](long long at) { return reinterpret_cast<Half*>(at); };
    auto out = reinterpret_cast<float*>(0x333333330000);
    auto tiled = Gemm::ThreadblockSwizzle().get_tiled_shape({64, 64, 64}, {64, 64, 32}, 1);
    Kernel::Params params({64, 64, 64}, tiled, {half(0x111111110000), 64}, {half(0x222222220000), 64}, {out, 64},
                          {out, 64}, {1.0f, 0.0f});
    fwrite(&params, 1, sizeof params, stdout);
}
