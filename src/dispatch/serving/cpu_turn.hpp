// Rotary embeddings on the CPU.
#pragma once

#include <cstdint>

#include "tilesmith/rotary.hpp"

namespace tilesmith {

/// Turns a row's first elements by the angles of a position, with the same bits on every processor.
void turn(const Rotary& rotary, std::int64_t position, float* row);

}  // namespace tilesmith
