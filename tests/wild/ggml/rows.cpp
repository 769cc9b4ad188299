// The fragments that ggml's mma.cuh assumes, as CSV. Compile it on the host, with ggml's folder for the header:
//     g++ -std=c++17 -I tests/wild/ggml -I ggml/src/ggml-cuda -I ingest tests/wild/ggml/rows.cpp -o rows
//     ./rows > ggml.csv && lanemap import table ggml.csv && lanemap diff ggml ptx-isa-9.4+errata
#include <utility>
#include "mma.cuh"
#include "lanemap.hpp"

using namespace ggml_cuda_mma;

// Tiles count rows of I and columns of J; a column of half2 or int is as many columns of the matrix as it has parts.
template <class Tile, int parts, bool turned>
void rows(const char* shape, const char* type, const char* role) {
    lanemap::rows(shape, type, role, 32, Tile::ne, parts, [](int lane, int value) {
        threadIdx.x = lane;
        const int i = Tile::get_i(value / parts), j = Tile::get_j(value / parts) * parts + value % parts;
        return turned ? std::pair(j, i) : std::pair(i, j);
    });
}

int main() {
    lanemap::header();
    rows<tile<16, 8, half2>, 2, false>("m16n8k16", "f16", "A");
    rows<tile<8, 8, half2>, 2, true>("m16n8k16", "f16", "B");
    rows<tile<16, 4, half2>, 2, false>("m16n8k16", "f16", "D");
    rows<tile<16, 8, float>, 1, false>("m16n8k16", "f32", "D");
    rows<tile<16, 8, nv_bfloat162>, 2, false>("m16n8k16", "bf16", "A");
    rows<tile<8, 8, nv_bfloat162>, 2, true>("m16n8k16", "bf16", "B");
    rows<tile<16, 8, int>, 4, false>("m16n8k32", "s8", "A");
    rows<tile<8, 8, int>, 4, true>("m16n8k32", "s8", "B");
    rows<tile<16, 8, int>, 1, false>("m16n8k32", "s32", "D");
    rows<tile<16, 8, int>, 1, false>("m16n8k16", "s32", "D");
}
