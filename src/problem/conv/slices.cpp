#include "problem/conv/slices.hpp"

namespace tilesmith {
namespace {

/// There is more than one slice, and the next image's first follows the last.
void take_slices_as_images(ConvStrides& s) {
  s.batch = s.spatial[0];
}

}  // namespace

std::optional<ConvProblem> images_of_slices(const ConvProblem& p) {
  if (p.unaligned || p.in_d == 1 || p.filter_d != 1 || p.stride_d != 1 || p.pad_d != 0 || p.pad_high_d != 0) return {};
  ConvProblem out = p;
  out.batch = p.batch * p.in_d;
  out.in_d = out.dilation_d = 1;
  return out;
}

ConvArguments arguments_of_slices(const ConvProblem& p, const ConvArguments& a) {
  ConvArguments out = a;
  take_slices_as_images(out.x_strides);
  take_slices_as_images(out.y_strides);
  for (std::size_t i = 0; i < p.epilogue.size(); ++i)
    if (reads_tensor(p.epilogue[i])) take_slices_as_images(out.epilogue[i].strides);
  return out;
}

}  // namespace tilesmith
