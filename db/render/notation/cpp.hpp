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
// Where two sources that are both included differ, name one: lanemap::from_SOURCE::...

#ifndef LANEMAP_FUNCTION
#if defined(__CUDACC__)
#define LANEMAP_FUNCTION __host__ __device__ constexpr
#else
#define LANEMAP_FUNCTION constexpr
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

}  // namespace lanemap
#endif

namespace lanemap {

