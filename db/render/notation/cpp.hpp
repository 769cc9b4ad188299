// C++17, constexpr, no other header. Arguments must be in range.
//
// Each fragment is a type with the same members, so that a template can take any:
//
// rows, cols, threads          of its matrix, and how many threads hold it
// registers, slots, slot_bits  of each thread; slot 0 is the low bits of a register, as .x is of a __half2
// first_bit, element_bits      the bits of a slot that an element has
// chunk, kept                  of so many columns so many are stored, 1 and 1 in dense operands; kept 0: no find
// holds(lane, reg, slot)       whether a slot holds anything
// at(lane, reg, slot)          the cell of a slot that holds something
// find(cell, nth)              the slot of a cell; where several slots hold it or, in sparse A and E, any of its chunk
//                              of columns, the nth of `kept`, from 0
//
// Besides, where it says all: holds(lane), find(row, col), find(row, col, computation) where an instruction does
// several products, and find(row, col, nth).
//
// Of what all lanes of a warp or wavefront hold, in device code of CUDA or HIP that all of them execute:
//
// reduce_rows(d, op)           of the elements d[reg * slots + slot] of a thread the values of the rows that it has parts
//                              of, each combined by op over its row: row_values of them; reduce_cols likewise
// row_value(reg, slot)         the number of the value that an element belongs to; col_value likewise
// row_warps, col_warps         how many warps have parts of a row or column; values are those of the warp's own parts
//
// Where two sources that are both included differ, name one: lanemap::from_SOURCE::...

#ifndef LANEMAP_FUNCTION
#if defined(__CUDACC__) || defined(__HIP__)
#define LANEMAP_FUNCTION __host__ __device__ constexpr
#else
#define LANEMAP_FUNCTION constexpr
#endif

#if defined(__HIP__)
#define LANEMAP_SHUFFLE(x, mask) @amd@
#elif defined(__CUDACC__)
#define LANEMAP_SHUFFLE(x, mask) @nvidia@
#endif

namespace lanemap {

struct cell {
  int row, col;
  int col_last = col;   // end of the window of columns, in sparse A and E
  int computation = 1;  // from 1, where an instruction does several products
};

struct place {
  int lane, reg, slot;
};

template <class T, int count> struct values {
  T value[count];
  LANEMAP_FUNCTION T& operator[](int i) { return value[i]; }
  LANEMAP_FUNCTION const T& operator[](int i) const { return value[i]; }
};

#ifdef LANEMAP_SHUFFLE
// What a thread holds of each value, of(i) that of element i in the order of their first ones, then what its partners do.
template <int count, int... masks, class T, int elements, class Of, class Op>
__device__ values<T, count> reduce(const T (&d)[elements], Of of, Op op) {
  values<T, count> found;
  int seen = 0;
#pragma unroll
  for (int i = 0; i < elements; ++i) {
    const int at = of(i);
    found[at] = at == seen ? d[i] : op(found[at], d[i]);
    seen += at == seen;
  }
#pragma unroll
  for (int i = 0; i < count; ++i) ((found[i] = op(found[i], LANEMAP_SHUFFLE(found[i], masks))), ...);
  return found;
}
#endif

}  // namespace lanemap
#endif

namespace lanemap {

