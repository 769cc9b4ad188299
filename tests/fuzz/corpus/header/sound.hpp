// One operation and its traits, as CUTLASS writes them.
#include <cute/arch/mma_sm80.hpp>
struct Op
{
  using DRegisters = float[4];
  using ARegisters = uint32_t[4];
  using BRegisters = uint32_t[2];
  using CRegisters = float[4];
  static void fma(float & d0, uint32_t const& a0) // { an unbalanced brace in a comment
  {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 " "{%0, %1}," : "=f"(d0) : "r"(a0));
  }
};
template <>
struct MMA_Traits<Op>
{
  using ValTypeA = half_t;
  using Shape_MNK = Shape<_16,_8,_16>;
  using ThrID = Layout<_32>;
  using ALayout = Layout<Shape<Shape<_4,_8>,Shape<_2,_2,_2>>, Stride<Stride<_32,_1>,Stride<_16,_8,_128>>>;
  using BLayout = Layout<Shape<Shape<_4,_8>,Shape<_2,_2>>, Stride<Stride<_16,_1>,Stride<_8,_64>>>;
  using CLayout = Layout<Shape<Shape<_4,_8>,Shape<_2,_2>>, Stride<Stride<_32,_1>,Stride<_16,_8>>>;
};
template <class T>
struct MMA_Traits<Other<T>> : MMA_Traits<Op> { using ValTypeD = T; };
