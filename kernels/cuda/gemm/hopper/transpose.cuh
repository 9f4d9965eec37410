// Transposes operands that are not contiguous along k: the tensor cores read 8-bit and 32-bit operands only along k.
//
// The copy engine copies such an operand in its own order, as squares: 128 bytes of m or n, and as many elements of k
// as 128 bytes hold of m or n. The spare warps of the producer's warpgroup transpose each square in place, after the
// copy engine and before the consumers. So a square needs no second buffer, and the consumers read the same stage that
// they would read of an operand that is contiguous along k.
#pragma once

#include "../../common/matrices.cuh"
#include "layout.cuh"

namespace ts::gemm {

// 8 bits: a square of 128 x 128. A tile of 32 elements of k by 32 of m or n changes places with its mirror image.
//
// ldmatrix.trans treats two bytes as one element, so a lane receives two neighbouring columns of two neighbouring rows.
// A byte permutation separates the columns, and stmatrix stores rows of k. The code may choose which rows form one
// matrix: it chooses them so that a lane holds four neighbouring k, and so that no two rows of a matrix share a bank.
struct ByteSquare {
  static constexpr int kUnits = 8;  // units of work in a square: two pairs of tiles on the diagonal, six pairs off it
  u32 from, to, even, odd;

  TS_DEVICE explicit ByteSquare(u32 lane) {
    const u32 matrix = lane >> 3, pair = lane >> 1 & 3;
    const u32 k = 16 * (matrix >> 1) + 4 * pair + 2 * (matrix & 1 ^ pair >> 1) + (lane & 1);
    from = k * 128 + ((k & 7) << 4);
    // In the matrix of a store, four rows hold even columns and the other four hold odd columns.
    const u32 row = 2 * (lane & 7) + (matrix >> 1 ^ lane >> 2 & 1);
    to = row * 128 + ((matrix & 1 ^ row & 7) << 4);
    const u32 low = lane & 2 ? 0x2064 : 0x6420;  // the low bytes of two words, in the order of k
    even = low + (lane >> 4) * 0x1111;
    odd = low + (lane >> 4 ^ 1) * 0x1111;
  }

  // Tile (i, j): rows 32 * i of k, columns 32 * j.
  TS_DEVICE void load(u32 (&r)[2][4], u32 square, u32 i, u32 j) const {
    const u32 at = square + i * 4096 + (from ^ j * 32);
    load_matrices_transposed(r[0], at);
    load_matrices_transposed(r[1], at ^ 16);
  }
  // Its transpose to tile (j, i).
  TS_DEVICE void store(const u32 (&r)[2][4], u32 square, u32 i, u32 j) const {
    const u32 at = square + j * 4096 + (to ^ i * 32);
#pragma unroll
    for (int half = 0; half < 2; ++half)
      store_matrices(at + half * 2048, __byte_perm(r[half][0], r[half][1], even),
                     __byte_perm(r[half][2], r[half][3], even), __byte_perm(r[half][0], r[half][1], odd),
                     __byte_perm(r[half][2], r[half][3], odd));
  }

  TS_DEVICE void transpose(u32 square, u32 unit) const {
    const u32 apart = unit >> 1;  // exclusive or of a tile's row and column: 0 on the diagonal
    const u32 i = (unit & 1) << (apart < 2 ? 1 : 0);
    const u32 other = i ^ (apart == 0 ? 1 : apart);
    u32 one[2][4], two[2][4];
    load(one, square, i, i ^ apart);
    load(two, square, other, other ^ apart);
    __syncwarp();
    store(one, square, i, i ^ apart);
    store(two, square, other, other ^ apart);
  }
};

// 32 bits, a square of 32 x 32. A lane transposes blocks of 4 x 4 words in its registers; the transpose of each block
// is the place of another that lanes of the same eight have at the same time, and neither their reads nor their writes
// meet in a bank.
struct WordSquare {
  static constexpr int kUnits = 2;
  u32 column, apart;  // of the lane's block of the first unit: its number of 4 along m or n, and that along k, as an
                      // exclusive or with it

  TS_DEVICE explicit WordSquare(u32 lane) : column(lane & 7), apart(lane >> 3) {}

  // Where row 0 of block (row, column) lies; row i is at an exclusive or with i times 0x90.
  static TS_DEVICE u32 place(u32 square, u32 row, u32 column) {
    return square + row * 512 + ((column ^ (row & 1) << 2) << 4);
  }

  TS_DEVICE void transpose(u32 square, u32 unit) const {
    const u32 row = column ^ apart ^ unit << 2;
    const u32 from = place(square, row, column), to = place(square, column, row);
    u32 words[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(words[i][0]), "=r"(words[i][1]), "=r"(words[i][2]), "=r"(words[i][3])
                   : "r"(from ^ i * 0x90)
                   : "memory");
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4; ++i)
      asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to ^ i * 0x90), "r"(words[0][i]),
                   "r"(words[1][i]), "r"(words[2][i]), "r"(words[3][i])
                   : "memory");
  }
};

template <int kBytes>
struct SquareOf {
  using Type = ByteSquare;
};
template <>
struct SquareOf<4> {
  using Type = WordSquare;
};

// One of kTransposers warps; each takes every so many units of a stage.
struct Transposer {
  const Shared& shared;
  u32 rank;
  RingPlace place;

  TS_DEVICE void hand_on() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(shared.full(place.index));
    place.advance();
  }

  TS_DEVICE void run(const TsCudaGemmArgs& args, u32 warp) {
    using Square = SquareOf<kElementBytes>::Type;
    constexpr int kSquares = (kTransposeA ? kColumnsA : 0) + (kTransposeB ? kColumnsB : 0);
    const Square square(threadIdx.x % 32);
    TileWalk walk(args);
    Tile t;
    for (int item = first_item(rank); walk.find(item, rank, t); item += gridDim.x / kClusterBlocks) {
      for (int s = 0; s < t.steps; ++s) {
        mbarrier_wait(shared.arrived(place.index), place.phase);
        const u32 first = kTransposeA ? shared.tile_a(place.index) : shared.tile_b(place.index);
#pragma unroll 1  // registers are few
        for (u32 unit = warp; unit < kSquares * Square::kUnits; unit += kTransposers)
          square.transpose(first + unit / Square::kUnits * kColumnBytes, unit % Square::kUnits);
        fence_proxy_async();
        hand_on();
      }
      // A tensor of the epilogue passes as it is.
      for (int s = copied_stages(args); s > 0; --s) {
        mbarrier_wait(shared.arrived(place.index), place.phase);
        hand_on();
      }
    }
  }
};

}  // namespace ts::gemm
