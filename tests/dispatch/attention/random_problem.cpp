#include "dispatch/attention/random_problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.hpp"
#include "runtime/cuda/memory.hpp"
#include "runtime/cuda/stream.hpp"
#include "trial/attention/data.hpp"
#include "trial/device.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/traits.hpp"

namespace tilesmith::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

ElementType element_of(DataType type) {
  return type == DataType::fp32 || type == DataType::tf32 ? ElementType::fp32
         : type == DataType::fp16                         ? ElementType::fp16
         : type == DataType::fp8                          ? ElementType::fp8e4m3
                                                          : ElementType::bf16;
}

/// Of k and v.
ElementType cached_element_of(const AttentionProblem& p) {
  return p.cache == KvElements::fp8    ? ElementType::fp8e4m3
         : p.cache == KvElements::int8 ? ElementType::int8
                                       : element_of(input_type(p.data_type));
}

/// What keys and values are multiplied by before they are stored, so that integers tell them apart.
float stored_size(const AttentionProblem& p) {
  return p.cache == KvElements::int8 ? 40.0F : 1.0F;
}

}  // namespace

AttentionProblem traits(DataType type, std::int64_t qk, std::int64_t v, std::string_view words) {
  const auto has = [&](std::string_view word) { return words.find(word) != std::string_view::npos; };
  AttentionProblem p{.data_type = type, .head_dim_qk = qk, .head_dim_v = v};
  if (has("group")) p.mode = SequenceMode::group;
  if (has("mask")) p.mask = MaskKind::top_left;
  if (has("bias")) p.bias = BiasKind::elementwise;
  if (has("alibi")) p.bias = BiasKind::alibi;
  p.soft_cap = has("cap");
  p.sink = has("sink");
  p.dropout = has("drop");
  p.lse = has("lse");
  p.unaligned = has("unaligned");
  p.unaligned_bias = has("odd bias");
  p.block_scale = has("block");
  p.page_size = has("paged") ? 1 : 0;
  p.cache = has("cache8") ? KvElements::fp8 : has("cachei8") ? KvElements::int8 : KvElements::as_queries;
  p.page_scale = has("pagescale");
  p.latent = has("latent");
  return p;
}

AttentionProblem random_shape(AttentionProblem p, std::uint64_t seed) {
  const RandomStream stream{seed, 1000};
  std::uint64_t draw = 0;
  const auto below = [&](std::uint64_t bound) { return static_cast<std::int64_t>(stream.below(draw++, bound)); };
  const auto length = [&](std::uint64_t most) {
    switch (below(8)) {
      case 0:
        return std::int64_t{0};
      case 1:
        return std::int64_t{1};
      case 2:
        return 64 * (1 + below(3));
      default:
        return 1 + below(most);
    }
  };
  p.batch = below(12) == 0 ? 0 : 1 + below(3);
  p.heads_kv = 1 + below(3);
  p.heads_q = p.heads_kv * std::array{1, 1, 2, 3, 8}[static_cast<std::size_t>(below(5))];
  p.seqlen_q = length(150);
  p.seqlen_k = length(300);
  if (p.page_size > 0) p.page_size = std::array{1, 2, 3, 7, 16, 64, 300}[static_cast<std::size_t>(below(7))];
  if (p.mask != MaskKind::none || p.window_left >= 0) {
    p.mask = std::array{MaskKind::none, MaskKind::top_left, MaskKind::bottom_right}[static_cast<std::size_t>(below(3))];
    const std::int64_t far = below(8) == 0 ? INT64_MAX : 40;  // "unbounded" in other words
    p.window_left = below(2) == 0 || p.mask == MaskKind::none ? std::min<std::int64_t>(below(41), far) : -1;
    if (p.window_left > 38) p.window_left = far;
    p.window_right =
        p.mask == MaskKind::none ? (below(2) == 0 ? std::min<std::int64_t>(below(41), far) : -1) : below(2) - 1;
    const bool bounded = p.mask != MaskKind::none || p.window_left >= 0 || p.window_right >= 0;
    if (bounded && below(3) == 0) p.diagonal = below(8) == 0 ? 1000 * (below(3) - 1) : below(101) - 60;
  }
  return p;
}

std::string describe(const AttentionProblem& p) {
  return fmt::format(
      "{}{} batch {} heads {}/{} seqlen {}x{} page {}{} cache {} dim {}/{} mask {} window {},{} diagonal {} bias "
      "{}{}{}{}{}",
      name_of(p.data_type), p.mode == SequenceMode::group ? " group" : "", p.batch, p.heads_q, p.heads_kv, p.seqlen_q,
      p.seqlen_k, p.page_size, p.page_scale ? " with scales" : "", p.latent ? "latent" : name_of(p.cache),
      p.head_dim_qk, p.head_dim_v, name_of(p.mask), p.window_left, p.window_right, p.diagonal, name_of(p.bias),
      p.soft_cap ? " softcap" : "", p.sink ? " sink" : "", p.dropout ? " dropout" : "", p.lse ? " lse" : "");
}

std::int64_t RandomCall::random(std::uint64_t bound) {
  return static_cast<std::int64_t>(RandomStream{seed_, 2000}.below(draw_++, bound));
}

std::vector<std::int32_t> RandomCall::offsets(std::int64_t longest) {
  std::vector<std::int32_t> out{0};
  for (std::int64_t b = 0; b < problem_.batch; ++b) {
    const std::int64_t length = one_in(3) ? longest : one_in(4) ? 0 : random(static_cast<std::uint64_t>(longest) + 1);
    out.push_back(static_cast<std::int32_t>(out.back() + length));
  }
  return out;
}

void RandomCall::make_pages() {
  AttentionPages& pages = arguments_.pages;
  pages_ = random_pages(problem_, cu_seqlens_q_, {seed_, 40});
  pages.lengths = pages_.lengths.data();
  pages.num_pages = pages_.num_pages();
  if (problem_.page_size >= problem_.seqlen_k && one_in(2)) {  // a dense cache
    pages_.rows_in_use.assign(pages_.lengths.begin(), pages_.lengths.end());
    pages_.numbers.clear();
    pages.num_pages = problem_.batch;
    return;
  }
  if (one_in(2)) {  // a list in place of a table
    std::vector<std::int32_t> list;
    for (std::size_t b = 0; b < pages_.lengths.size(); ++b) {
      page_offsets_.push_back(static_cast<std::int32_t>(list.size()));
      const std::int64_t count = (pages_.lengths[b] + problem_.page_size - 1) / problem_.page_size;
      const auto row = pages_.numbers.begin() + static_cast<std::int64_t>(b) * pages_.stride;
      list.insert(list.end(), row, row + count);
    }
    list.push_back(-1);  // so that it is never empty
    pages_.numbers = std::move(list);
    pages.offsets = page_offsets_.data();
  }
  pages.numbers = pages_.numbers.data();
  pages.stride = pages_.stride;
}

GuardedBuffer& RandomCall::tensor(std::int64_t members, bool packed, std::int64_t heads, std::int64_t rows,
                                  std::int64_t dim, bool may_broadcast, AttentionStrides& strides) {
  const auto gap = [&] { return one_in(2) ? 0 : random(20) * stride_step_; };
  const bool in_pages = problem_.page_size > 0 && !inputs_.empty() && may_broadcast;
  TensorExtents extents{members, heads, rows, dim};
  if (one_in(2)) {
    strides.row = dim + gap();
    strides.head = rows * strides.row + gap();
    strides.batch = heads * strides.head + gap();
  } else {
    strides.head = dim + gap();
    strides.row = heads * strides.head + gap();
    strides.batch = rows * strides.row + gap();
  }
  if (packed) strides.batch = random(100);  // ignored
  if (may_broadcast && !packed && !in_pages && one_in(8)) {
    strides.batch = 0;
    extents.batch = std::min<std::int64_t>(1, extents.batch);
  }
  if (may_broadcast && one_in(8)) {
    strides.head = 0;
    extents.head = 1;
  }
  const DataType type = problem_.data_type;
  const bool cached = may_broadcast && !inputs_.empty();
  auto buffer = std::make_unique<GuardedBuffer>(cached          ? cached_element_of(problem_)
                                                : may_broadcast ? element_of(input_type(type))
                                                                : element_of(output_type(type)),
                                                extents, TensorStrides{strides.batch, strides.head, strides.row, 1});
  if (!may_broadcast) {
    o_extents_ = extents;
    o_ = std::move(buffer);
    return *o_;
  }
  std::vector<float> values(static_cast<std::size_t>(extents.batch * extents.head * extents.row * extents.column));
  fill_normal(values, {seed_, 10 + inputs_.size()}, 1.0F, 1);
  for (std::size_t at = 0; at < values.size(); at += static_cast<std::size_t>(dim)) {
    const auto line = static_cast<std::int64_t>(at) / dim;
    const float size = inputs_.empty()        ? loudness(line / rows % extents.head, line % rows)
                       : problem_.block_scale ? size_in_block(line % rows)
                                              : stored_size(problem_);
    for (float& value : std::span(values).subspan(at, static_cast<std::size_t>(dim))) value *= size;
  }
  if (type == DataType::tf32)
    for (float& value : values) {  // 10 bits of mantissa: what the products round to
      const float large = value * 8193.0F;
      value = large - (large - value);
    }
  if (in_pages) poison_unused_rows(pages_, AttentionLayout::bhsd, extents.head, rows, dim, values);
  buffer->fill(values);
  inputs_.push_back(std::move(buffer));
  return *inputs_.back();
}

void RandomCall::make_bias() {
  TensorExtents extents{problem_.batch, problem_.heads_q, problem_.seqlen_q, problem_.seqlen_k};
  TensorStrides strides;
  const bool whole = stride_step_ > 1 && !problem_.unaligned_bias;  // rows are multiples of 16 bytes
  std::int64_t next = one_in(4) && !whole ? 2 : 1;
  const auto place = [&](std::int64_t& size, std::int64_t& stride) {
    if (size > 0 && one_in(4) && !(whole && &size == &extents.column)) size = 1;
    stride = size == 1 ? 0 : next;
    next = std::max<std::int64_t>(1, size) * next + (one_in(2) ? 0 : random(9));
    if (whole) next = (next + 3) / 4 * 4;
  };
  place(extents.column, strides.column);
  place(extents.row, strides.row);
  place(extents.head, strides.head);
  place(extents.batch, strides.batch);
  auto buffer = std::make_unique<GuardedBuffer>(ElementType::fp32, extents, strides);
  std::vector<float> values(static_cast<std::size_t>(extents.batch * extents.head * extents.row * extents.column));
  fill_normal(values, {seed_, 20}, 2.0F, 1);
  hide_keys(values, static_cast<std::size_t>(std::max<std::int64_t>(1, extents.column)));
  buffer->fill(values);
  arguments_.bias = reinterpret_cast<const float*>(buffer->data());
  arguments_.bias_strides = {strides.batch, strides.head, strides.row, strides.column};
  inputs_.push_back(std::move(buffer));
}

/// Every second bias hides keys, as padding masks do: of each row those in front, those at its end, or all.
void RandomCall::hide_keys(std::vector<float>& bias, std::size_t keys) const {
  const RandomStream stream{seed_, 23};
  std::uint64_t draw = 0;
  const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(stream.below(draw++, bound)); };
  if (below(2) == 0) return;
  for (std::size_t row = 0; row + keys <= bias.size(); row += keys) {
    const std::size_t kind = below(4), place = below(keys + 1);
    const std::size_t first = kind == 0 ? place : 0, end = kind == 1 ? place : keys;
    if (kind < 3) std::fill_n(bias.begin() + static_cast<std::ptrdiff_t>(row + first), end - first, -kInfinity);
  }
}

/// Scales of pages or of their rows, NaN where no query sees one.
void RandomCall::make_page_scale(std::vector<float>& values, AttentionScale& scale) {
  const std::int64_t heads = problem_.heads_kv, pages = arguments_.pages.num_pages, rows = problem_.page_size;
  const std::int64_t kept = one_in(3) ? 1 : rows;  // scales of a page and head
  scale.block = kept == rows ? 1 : 0;
  scale.head = one_in(3) ? 0 : kept;
  scale.batch = heads * kept;
  values.resize(static_cast<std::size_t>(std::max<std::int64_t>(1, pages) * scale.batch));
  fill_uniform(values, {seed_, 30 + draw_}, 0.3F / stored_size(problem_), 1.5F / stored_size(problem_), 1);
  for (std::int64_t page = 0; page < pages; ++page)
    for (std::int64_t head = 0; head < heads; ++head)
      for (std::int64_t row = pages_.rows_in_use[static_cast<std::size_t>(page)]; row < kept; ++row)
        values[static_cast<std::size_t>(page * scale.batch + head * kept + row)] =
            std::numeric_limits<float>::quiet_NaN();
  scale.data = values.data();
}

void RandomCall::make_scale(std::int64_t heads, std::int64_t longest, std::vector<float>& values,
                            AttentionScale& scale) {
  if (!problem_.block_scale && stored_size(problem_) == 1 && one_in(4)) return;  // a scale of 1
  const std::int64_t blocks =
      problem_.block_scale ? std::max<std::int64_t>(1, (longest + kScaleBlock - 1) / kScaleBlock) : 1;
  scale.block = problem_.block_scale ? 1 : 0;
  scale.head = one_in(3) ? 0 : blocks;
  scale.batch = one_in(3) ? 0 : heads * blocks;
  values.resize(static_cast<std::size_t>(std::max<std::int64_t>(1, problem_.batch) * heads * blocks));
  fill_uniform(values, {seed_, 30 + draw_}, 0.3F / stored_size(problem_), 1.5F / stored_size(problem_), 1);
  scale.data = values.data();
}

RandomCall::RandomCall(const AttentionProblem& problem, std::uint64_t seed, std::int64_t stride_step)
    : problem_(problem), seed_(seed), stride_step_(stride_step) {
  const AttentionProblem& p = problem_;
  std::int64_t rows_q = p.seqlen_q, rows_k = p.seqlen_k;
  if (p.mode == SequenceMode::group) {
    cu_seqlens_q_ = offsets(p.seqlen_q);
    rows_q = cu_seqlens_q_.back();
    arguments_.cu_seqlens_q = cu_seqlens_q_.data();
    arguments_.total_q = rows_q;
    if (p.page_size == 0) {
      cu_seqlens_k_ = offsets(p.seqlen_k);
      rows_k = cu_seqlens_k_.back();
      arguments_.cu_seqlens_k = cu_seqlens_k_.data();
      arguments_.total_k = rows_k;
    }
  }
  const bool packed = p.mode == SequenceMode::group, packed_k = packed && p.page_size == 0;
  const std::int64_t members = packed ? 1 : p.batch;
  std::int64_t members_k = members;
  if (p.page_size > 0) {
    make_pages();
    members_k = arguments_.pages.num_pages;
    rows_k = p.page_size;
  }
  AttentionArguments& a = arguments_;
  a.q = tensor(members, packed, p.heads_q, rows_q, p.head_dim_qk, true, a.q_strides).data();
  a.k = tensor(members_k, packed_k, p.heads_kv, rows_k, p.head_dim_qk, true, a.k_strides).data();
  if (!p.latent) a.v = tensor(members_k, packed_k, p.heads_kv, rows_k, p.head_dim_v, true, a.v_strides).data();
  a.o = tensor(members, packed, p.heads_q, rows_q, p.head_dim_v, false, a.o_strides).data();
  if (p.page_scale) {
    make_page_scale(k_scale_, arguments_.k_scale);
    make_page_scale(v_scale_, arguments_.v_scale);
  } else if (input_type(p.data_type) == DataType::fp8 || p.cache != KvElements::as_queries) {
    if (p.cache == KvElements::as_queries) make_scale(p.heads_q, p.seqlen_q, q_scale_, arguments_.q_scale);
    make_scale(p.heads_kv, p.seqlen_k, k_scale_, arguments_.k_scale);
    make_scale(p.heads_kv, p.seqlen_k, v_scale_, arguments_.v_scale);
  }
  if (p.lse) {
    AttentionStrides& s = arguments_.lse_strides;
    s = one_in(2) ? AttentionStrides{p.heads_q * rows_q, rows_q, 1}
                  : AttentionStrides{2 * p.heads_q * rows_q, 2, 2 * p.heads_q};
    lse_ = std::make_unique<GuardedBuffer>(ElementType::fp32, TensorExtents{o_extents_.batch, p.heads_q, rows_q, 1},
                                           TensorStrides{s.batch, s.head, s.row, 1});
    arguments_.lse = reinterpret_cast<float*>(lse_->data());
  }
  if (p.bias == BiasKind::elementwise) make_bias();
  if (p.bias == BiasKind::alibi) {
    const bool by_batch = one_in(2);
    arguments_.alibi_batch_stride = by_batch ? p.heads_q : 0;
    alibi_.resize(static_cast<std::size_t>(p.heads_q * (by_batch ? std::max<std::int64_t>(1, p.batch) : 1)));
    fill_uniform(alibi_, {seed_, 21}, 0.01F, 0.5F, 1);
    arguments_.alibi = alibi_.data();
  }
  if (p.sink) {
    sink_.resize(static_cast<std::size_t>(p.heads_q));
    fill_normal(sink_, {seed_, 22}, 1.0F, 1);
    for (float& sink : sink_) sink += sink_size(p.seqlen_k);
    arguments_.sink = sink_.data();
  }
  arguments_.scale = one_in(4) ? 0.3F : 1.0F / std::sqrt(static_cast<float>(p.head_dim_qk));
  arguments_.soft_cap = p.soft_cap ? 2.0F + static_cast<float>(random(30)) : 0;
  arguments_.dropout_probability = p.dropout ? static_cast<float>(random(40000)) / 65536.0F : 0;
  arguments_.seed = seed_ * 0x9e3779b97f4a7c15u;
  arguments_.offset = one_in(2) ? 0 : seed_ << 30;
  describe_for_checks();
  keep_inputs();
}

void RandomCall::keep_inputs() {
  const auto keep = [&](const char* name, std::span<const std::byte> memory) {
    if (!memory.empty()) kept_.push_back({name, memory, {memory.begin(), memory.end()}});
  };
  for (std::size_t i = 0; i < inputs_.size(); ++i) keep(name_of_input(i), inputs_[i]->storage());
  for (const Memory& list : lists()) keep(list.name, list.bytes);
}

const char* RandomCall::name_of_input(std::size_t index) const {
  return std::array{"q", "k", problem_.latent ? "bias" : "v", "bias"}[index];
}

std::vector<RandomCall::Memory> RandomCall::lists() const {
  std::vector<Memory> out;
  const auto add = [&](const char* name, const auto& list) {
    out.push_back({name, std::as_bytes(std::span(list)), false});
  };
  add("alibi", alibi_);
  add("sink", sink_);
  add("q_scale", q_scale_);
  add("k_scale", k_scale_);
  add("v_scale", v_scale_);
  add("cu_seqlens_q", cu_seqlens_q_);
  add("cu_seqlens_k", cu_seqlens_k_);
  add("seqlens_k", pages_.lengths);
  add("page numbers", pages_.numbers);
  add("page offsets", page_offsets_);
  return out;
}

std::vector<RandomCall::Memory> RandomCall::memory() const {
  std::vector<Memory> out = lists();
  for (std::size_t i = 0; i < inputs_.size(); ++i) out.push_back({name_of_input(i), inputs_[i]->tensor(), false});
  out.push_back({"o", o_->tensor(), true});
  if (lse_) out.push_back({"lse", lse_->tensor(), true});
  return out;
}

void RandomCall::compare(const Kept& input, const void* now) {
  if (const auto byte = first_difference(now, input.bytes.data(), input.bytes.size()); byte && changed_.empty())
    changed_ = fmt::format("the call changed its input {} at byte {}, red zone included", input.name, *byte);
}

Status RandomCall::make_reference() {
  if (reference_) return {};
  TS_ASSIGN(reference_, AttentionReference::make(tensors_, element_of(output_type(problem_.data_type)), 1));
  return {};
}

void RandomCall::describe_for_checks() {
  const AttentionProblem& p = problem_;
  const AttentionArguments& a = arguments_;
  AttentionTensors& t = tensors_;
  const auto view = [&](const void* data, ElementType type, const AttentionStrides& s, const AttentionScale& scale) {
    return TensorView{
        data, type, {s.batch, s.head, s.row, 1}, {scale.data, scale.batch, scale.head, scale.block, p.page_scale}};
  };
  t.q = view(a.q, element_of(input_type(p.data_type)), a.q_strides, a.q_scale);
  t.q.scale.by_page = false;
  t.k = view(a.k, cached_element_of(p), a.k_strides, a.k_scale);
  t.v = p.latent ? t.k : view(a.v, cached_element_of(p), a.v_strides, a.v_scale);
  t.bias = a.bias;
  t.bias_strides = {a.bias_strides.batch, a.bias_strides.head, a.bias_strides.row, a.bias_strides.column};
  t.alibi = a.alibi;
  t.alibi_batch_stride = a.alibi_batch_stride;
  t.sink = a.sink;
  t.cu_seqlens_q = a.cu_seqlens_q;
  t.cu_seqlens_k = a.cu_seqlens_k;
  t.pages = {p.page_size, a.pages.lengths, a.pages.numbers, a.pages.offsets, a.pages.stride, a.pages.num_pages};
  t.batch = p.batch;
  t.heads_q = p.heads_q;
  t.heads_kv = p.heads_kv;
  t.seqlen_q = p.seqlen_q;
  t.seqlen_k = p.seqlen_k;
  t.head_dim_qk = p.head_dim_qk;
  t.head_dim_v = p.head_dim_v;
  // The words of tilesmith/attention.hpp: a causal mask ends at the diagonal, a window without one is aligned to the
  // bottom right.
  const bool causal = p.mask != MaskKind::none;
  constexpr std::int64_t kBeyond = 1 << 20;
  t.window_left = std::min(p.window_left, kBeyond);
  t.window_right = causal ? 0 : std::min(p.window_right, kBeyond);
  t.diagonal = p.diagonal;
  t.mask_bottom_right = causal ? p.mask == MaskKind::bottom_right : p.window_left >= 0 || p.window_right >= 0;
  t.tf32 = p.data_type == DataType::tf32;
  t.scale = a.scale;
  t.soft_cap = a.soft_cap;
  t.seed = a.seed;
  t.offset = a.offset;
  t.drop_threshold = static_cast<std::uint32_t>(a.dropout_probability * 65536.0F);
}

Status RandomCall::run(const AttentionPlan& plan) {
  TS_TRY(make_reference());  // before the kernel could change what it is compared with
  changed_.clear();
  for (GuardedBuffer* buffer : {o_.get(), lse_.get()})
    if (buffer != nullptr) std::ranges::fill(buffer->storage(), std::byte{0xff});
  return plan.device().kind == DeviceKind::cuda ? run_on_device(plan) : plan.run(arguments_);
}

Status RandomCall::run_on_device(const AttentionPlan& plan) {
  TS_ASSIGN(const CudaContext* context, CudaContext::of(plan.device().index));
  const CudaCurrent current(*context);
  TS_TRY(current.status());
  TS_ASSIGN(const CudaStream stream, CudaStream::create(*context));
  std::vector<CudaBuffer> copies;
  std::vector<const void*> origins;  // of the copies
  /// Copies memory to the device and moves a pointer into it along.
  const auto move = [&]<class T>(T*& pointer, const void* begin, std::size_t bytes) -> Status {
    if (bytes == 0) {
      pointer = nullptr;
      return {};
    }
    TS_ASSIGN(CudaBuffer copy, CudaBuffer::allocate(*context, bytes));
    TS_TRY(copy_to_device(*context, copy.data(), begin, bytes, stream.handle()));
    const auto offset = reinterpret_cast<std::uintptr_t>(pointer) - reinterpret_cast<std::uintptr_t>(begin);
    pointer = reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(copy.data()) + offset);
    copies.push_back(std::move(copy));
    origins.push_back(begin);
    return {};
  };
  const auto move_buffer = [&](auto*& pointer, GuardedBuffer& buffer) {
    return move(pointer, buffer.storage().data(), buffer.storage().size());
  };
  AttentionArguments a = arguments_;
  TS_TRY(move_buffer(a.q, *inputs_[0]));
  TS_TRY(move_buffer(a.k, *inputs_[1]));
  if (!problem_.latent) TS_TRY(move_buffer(a.v, *inputs_[2]));
  if (a.bias != nullptr) TS_TRY(move_buffer(a.bias, *inputs_.back()));
  TS_TRY(move(a.alibi, alibi_.data(), alibi_.size() * sizeof(float)));
  TS_TRY(move(a.sink, sink_.data(), sink_.size() * sizeof(float)));
  TS_TRY(move(a.q_scale.data, q_scale_.data(), q_scale_.size() * sizeof(float)));
  TS_TRY(move(a.k_scale.data, k_scale_.data(), k_scale_.size() * sizeof(float)));
  TS_TRY(move(a.v_scale.data, v_scale_.data(), v_scale_.size() * sizeof(float)));
  TS_TRY(move(a.cu_seqlens_q, cu_seqlens_q_.data(), cu_seqlens_q_.size() * sizeof(std::int32_t)));
  TS_TRY(move(a.cu_seqlens_k, cu_seqlens_k_.data(), cu_seqlens_k_.size() * sizeof(std::int32_t)));
  TS_TRY(move(a.pages.lengths, pages_.lengths.data(), pages_.lengths.size() * sizeof(std::int32_t)));
  TS_TRY(move(a.pages.numbers, pages_.numbers.data(), pages_.numbers.size() * sizeof(std::int32_t)));
  TS_TRY(move(a.pages.offsets, page_offsets_.data(), page_offsets_.size() * sizeof(std::int32_t)));
  TS_TRY(move_buffer(a.o, *o_));
  const void* const o = copies.back().data();
  if (lse_) TS_TRY(move_buffer(a.lse, *lse_));
  const void* const lse = copies.back().data();
  TS_TRY(plan.run(a, {.stream = stream.handle()}));
  TS_TRY(copy_to_host(*context, o_->storage().data(), o, o_->storage().size(), stream.handle()));
  if (lse_) TS_TRY(copy_to_host(*context, lse_->storage().data(), lse, lse_->storage().size(), stream.handle()));
  TS_TRY(stream.synchronize());
  for (const Kept& input : kept_) {
    const auto place = std::ranges::find(origins, static_cast<const void*>(input.memory.data()));
    if (place == origins.end()) continue;
    std::vector<std::byte> now(input.bytes.size());
    const CudaBuffer& copy = copies[static_cast<std::size_t>(place - origins.begin())];
    TS_TRY(copy_to_host(*context, now.data(), copy.data(), now.size(), stream.handle()));
    TS_TRY(stream.synchronize());
    compare(input, now.data());
  }
  return {};
}

std::vector<float> RandomCall::output() const {
  return read_output(tensors_, o_->view(), problem_.head_dim_v);
}

std::string RandomCall::judge() {
  for (const GuardedBuffer* buffer : {o_.get(), lse_.get()})
    if (const auto damage = buffer != nullptr ? buffer->damage() : std::nullopt) return *damage;
  for (const Kept& input : kept_) compare(input, input.memory.data());
  if (!changed_.empty()) return changed_;
  if (const Status made = make_reference(); !made) return made.error().text();
  const Verdict verdict =
      lse_ ? reference_->judge(output(), read_output(tensors_, lse_->view(), 1)) : reference_->judge(output());
  return verdict.outcome == Outcome::fail ? verdict.reason : std::string();
}

}  // namespace tilesmith::testing
