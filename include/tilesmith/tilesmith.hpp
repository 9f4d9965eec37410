// Tilesmith: from a problem to the fastest verified kernel.
//
// A *problem* says what is to be computed and on which shape. A *dispatcher* turns it into a *plan*: a kernel chosen
// for this machine, compiled once and kept. A plan *runs* on buffers. See dispatcher.hpp for the lines that do it,
// attention.hpp, gemm.hpp and conv.hpp for the meaning of every field, error.hpp for what a failure carries.
//
// The library never prints unless asked to (TILESMITH_LOG), never exits, starts no thread before the first call that
// can use one, and throws nothing but std::bad_alloc. Kernels it compiles are kept in TILESMITH_CACHE_DIR (default:
// ~/.cache/tilesmith).
#pragma once

#include "tilesmith/attention.hpp"
#include "tilesmith/attention_backward.hpp"
#include "tilesmith/conv.hpp"
#include "tilesmith/device.hpp"
#include "tilesmith/dispatcher.hpp"
#include "tilesmith/error.hpp"
#include "tilesmith/gemm.hpp"
#include "tilesmith/serving.hpp"
#include "tilesmith/tree_mask.hpp"
#include "tilesmith/tune.hpp"
#include "tilesmith/types.hpp"
