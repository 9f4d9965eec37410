// Tensors on a CUDA device, for tests of attention that need no reference.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "runtime/cuda/device.hpp"
#include "runtime/cuda/memory.hpp"
#include "tilesmith/attention.hpp"

namespace tilesmith::testing {

/// Dense tensors of a problem on the device, for tests that need no reference.
struct OnDevice {
  explicit OnDevice(const AttentionProblem& p) : arguments(dense_arguments(p, AttentionLayout::bhsd)) {
    const auto make = [&](std::int64_t count, int value) {
      CudaBuffer buffer = CudaBuffer::allocate(*context, static_cast<std::size_t>(count)).value();
      EXPECT_TRUE(fill_bytes(*context, buffer.data(), static_cast<std::uint8_t>(value), buffer.bytes()));
      memory.push_back(std::move(buffer));
      return memory.back().data();
    };
    const std::int64_t rows_q = p.batch * p.heads_q * p.seqlen_q, rows_k = p.batch * p.heads_kv * p.seqlen_k;
    arguments.q = make(rows_q * p.head_dim_qk * 2, 0x3c);
    arguments.k = make(rows_k * p.head_dim_qk * 2, 0x3c);
    arguments.v = make(rows_k * p.head_dim_v * 2, 0x3c);
    arguments.o = make(rows_q * p.head_dim_v * 2, 0xff);
    arguments.lse = static_cast<float*>(make(rows_q * 4, 0xff));
    EXPECT_TRUE(context->synchronize());
  }
  [[nodiscard]] std::vector<std::uint16_t> output() const {
    std::vector<std::uint16_t> out(memory[3].bytes() / 2);
    EXPECT_TRUE(copy_to_host(*context, out.data(), memory[3].data(), memory[3].bytes()));
    EXPECT_TRUE(context->synchronize());
    return out;
  }

  const CudaContext* context = CudaContext::of(0).value();
  const CudaCurrent current{*context};
  std::vector<CudaBuffer> memory;
  AttentionArguments arguments;
};

}  // namespace tilesmith::testing
