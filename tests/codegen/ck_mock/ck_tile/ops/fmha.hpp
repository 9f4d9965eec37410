// A stand-in for CK Tile's attention: template arguments in order and kind, and the conditions that the generated
// sources' rules promise. Members are named after the fields of tilesmith_ck::AttentionRecord, for the test to compare.
#pragma once

#include "ck_tile/ops/fmha/appendkv.hpp"
#include "ck_tile/ops/fmha/backward.hpp"
#include "ck_tile/ops/fmha/batch_prefill.hpp"
#include "ck_tile/ops/fmha/forward.hpp"
#include "ck_tile/ops/fmha/pagedkv.hpp"
#include "ck_tile/ops/fmha/shared.hpp"
#include "ck_tile/ops/fmha/split.hpp"
