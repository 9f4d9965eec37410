// Rules that attention kernels of every GPU share.
#pragma once

#include <fmt/format.h>

#include "instances/attention/gpu_signature.hpp"
#include "instances/rule.hpp"

namespace tilesmith {

template <class Subject>
inline constexpr Rule<Subject> kMaskIsAWindow{
    "mask_is_a_window", "bounds and diagonal are run-time numbers: a kernel only knows which sides are bounded",
    [](const Subject& s) {
      const MaskKind mask = s.signature().mask;
      return mask == MaskKind::none || mask == MaskKind::causal || mask == MaskKind::generic;
    },
    [](const Subject& s) { return fmt::format("mask {}; no, causal or generic", name_of(s.signature().mask)); }};

template <class Subject>
inline constexpr Rule<Subject> kNegativeScaleMatters{
    "negative_scale_matters", "with a soft cap or an elementwise bias the scores carry the scale's sign themselves",
    [](const Subject& s) { return gpu_attention_signature(s.signature()) == s.signature(); },
    [](const Subject& s) {
      return fmt::format("negative_scale {}, soft_cap {}, bias {}", s.signature().negative_scale,
                         s.signature().soft_cap, name_of(s.signature().bias));
    }};

}  // namespace tilesmith
