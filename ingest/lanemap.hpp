// Prints a layout as rows of CSV, which `lanemap import table` reads. C++17; cell(lane, value) gives a pair (row, col).
#pragma once
#include <cstdio>

namespace lanemap {
inline void header() { std::puts("shape,type,role,lane,reg,slot,row,col"); }

template <class Cell>
void rows(const char* shape, const char* type, const char* role, int threads, int registers, int slots, Cell cell) {
    for (int lane = 0; lane < threads; ++lane)
        for (int value = 0; value < registers * slots; ++value) {
            const auto [row, col] = cell(lane, value);
            std::printf("%s,%s,%s,%d,%d,%d,%d,%d\n", shape, type, role, lane, value / slots, value % slots, row, col);
        }
}
}  // namespace lanemap
