#pragma once

// (thread, value) to the cell, counted down the columns of A (M, K), of B (N, K), of C and D (M, N).

#include <cute/layout.hpp>
#include <cute/numeric/numeric_types.hpp>

namespace lanemap {

using namespace cute;

