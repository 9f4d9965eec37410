#include "codegen/attention/gpu_traits.hpp"

#include "vocabulary/data_type.hpp"

namespace tilesmith {

void add_attention_traits(ConstantsTable& table, const AttentionSignature& s) {
  table.add("kBf16", output_type(s.data_type) == DataType::bf16);
  table.add("kHeadDimQk", s.head_dim_qk);
  table.add("kHeadDimV", s.head_dim_v);
  table.add("kMaskRight", s.mask != MaskKind::none);
  table.add("kMaskLeft", s.mask == MaskKind::generic);
  table.add("kGroupMode", s.mode == SequenceMode::group);
  table.add("kLse", s.lse);
  table.add("kSink", s.sink);
  table.add("kSoftCap", s.soft_cap);
  table.add("kBias", s.bias == BiasKind::elementwise);
  table.add("kAlibi", s.bias == BiasKind::alibi);
  table.add("kDropout", s.dropout);
  table.add("kNegativeScale", s.negative_scale);
}

}  // namespace tilesmith
