// What kernels share that bring tiles of pixels through tensor maps: kernels/cuda/conv/mapped.cuh.
#pragma once

namespace tilesmith {

constexpr int kMostMappedStages = 7;
constexpr int kMostRunsOfCluster = 8;  // that every chip with clusters has
constexpr long kGateBytes = 16;        // of a stage: a barrier and a counter
constexpr long kPlanBytes = 32 * 104;  // kStepBytes of kernels/cuda/conv/depthwise/stages.cuh

}  // namespace tilesmith
