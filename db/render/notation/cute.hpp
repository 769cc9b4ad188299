#pragma once

// (thread, value) to the cell, counted down the columns of one matrix after the other; that of B is (N, K).
// Of an operand in shared memory (M, K) or (N, K) to the element, counted from where the tile begins.

#include <cute/layout.hpp>
#include <cute/numeric/numeric_types.hpp>
#include <cute/swizzle_layout.hpp>

namespace lanemap {

using namespace cute;

