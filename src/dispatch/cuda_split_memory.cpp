#include "dispatch/cuda_split_memory.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "dispatch/workspace.hpp"
#include "runtime/cuda/stream.hpp"

namespace tilesmith {

struct CudaSplitMemory::Piece {
  CudaBuffer memory;
  Size size;

  [[nodiscard]] bool holds(const Size& other) const {
    return other.part_bytes <= size.part_bytes && other.counters <= size.counters;
  }
  [[nodiscard]] Place place() const { return place_in(memory.data(), size); }
};

struct CudaSplitMemory::Shared {
  /// The capture's identity and the stream, whose own identity the driver does not tell meanwhile.
  using Captured = std::pair<std::uint64_t, cu::Stream>;

  std::mutex mutex;
  std::vector<const Piece*> spare;
  std::map<Captured, const Piece*> captured;
};

/// What a graph holds.
struct CudaSplitMemory::Held {
  std::shared_ptr<Shared> shared;
  Shared::Captured by;
  const Piece* piece;

  /// Called by the driver when the graph is gone, perhaps after the pieces are: they are not looked at.
  static void give_back(void* data) {
    const std::unique_ptr<const Held> held(static_cast<const Held*>(data));
    const std::lock_guard lock(held->shared->mutex);
    const auto found = held->shared->captured.find(held->by);
    if (found != held->shared->captured.end() && found->second == held->piece) held->shared->captured.erase(found);
    held->shared->spare.push_back(held->piece);
  }
};

CudaSplitMemory::CudaSplitMemory(const CudaContext& context)
    : context_(context), slots_(context), shared_(std::make_shared<Shared>()) {}

CudaSplitMemory::~CudaSplitMemory() = default;

CudaSplitMemory::Place CudaSplitMemory::place_in(void* memory, const Size& size) {
  auto* const bytes = static_cast<std::byte*>(memory);
  return {reinterpret_cast<unsigned*>(bytes), reinterpret_cast<float*>(bytes + size.counter_bytes())};
}

/// The smallest spare piece that holds `size`, or a new one of `made`, for which a spare one gives its memory back. The
/// caller has the lock.
Result<const CudaSplitMemory::Piece*> CudaSplitMemory::take(const Size& size, const Size& made) {
  std::vector<const Piece*>& spare = shared_->spare;
  auto found = spare.end();
  for (auto i = spare.begin(); i != spare.end(); ++i)
    if ((*i)->holds(size) && (found == spare.end() || (*i)->size.bytes() < (*found)->size.bytes())) found = i;
  if (found != spare.end()) {
    const Piece* const piece = *found;
    spare.erase(found);
    return piece;
  }
  const CudaCurrent current(context_);
  TS_TRY(current.status());
  const CudaCaptureRelaxed relaxed(context_.driver());
  if (!spare.empty()) {  // none holds what is asked for
    std::erase_if(pieces_, [&](const auto& owned) { return owned.get() == spare.back(); });
    spare.pop_back();
  }
  TS_ASSIGN(CudaBuffer memory, CudaBuffer::allocate(context_, made.bytes()));
  TS_ASSIGN(const CudaStream stream, CudaStream::create(context_));
  TS_TRY(fill_bytes(context_, memory.data(), 0, made.counter_bytes(), stream.handle()));
  TS_TRY(stream.synchronize());
  pieces_.push_back(std::make_unique<const Piece>(std::move(memory), made));
  return pieces_.back().get();
}

Status CudaSplitMemory::reserve(const Size& size) {
  const std::lock_guard lock(shared_->mutex);
  largest_ = largest_.joined(size);
  TS_ASSIGN(const Piece* piece, take(size, size));
  shared_->spare.push_back(piece);
  return {};
}

Result<CudaSplitMemory::Place> CudaSplitMemory::of(cu::Stream stream, const Size& size) {
  const CudaDriver& driver = context_.driver();
  cu::CaptureStatus status{};
  std::uint64_t capture = 0;
  cu::Graph graph = nullptr;
  TS_TRY(cuda_status(driver, driver.stream_get_capture_info(stream, &status, &capture, &graph, nullptr, nullptr),
                     "asking whether the stream is captured"));
  if (status != cu::CaptureStatus::none) return of_capture(stream, capture, graph, size);
  TS_ASSIGN(const std::size_t slot, slots_.of(stream));
  const Piece* piece = streams_[slot].load(std::memory_order_acquire);
  if (piece == nullptr || !piece->holds(size)) {
    const std::lock_guard lock(shared_->mutex);
    piece = streams_[slot].load(std::memory_order_relaxed);
    if (piece == nullptr || !piece->holds(size)) {
      largest_ = largest_.joined(size);
      TS_ASSIGN(piece, take(size, largest_));
      streams_[slot].store(piece, std::memory_order_release);
    }
  }
  return piece->place();
}

Result<CudaSplitMemory::Place> CudaSplitMemory::place_for(const RunOptions& options, const Size& size) {
  const auto stream = static_cast<cu::Stream>(options.stream);
  if (options.workspace == nullptr) return of(stream, size);
  TS_TRY(check_workspace(options.workspace));
  // What the caller's memory holds is unknown.
  TS_TRY(fill_bytes(context_, options.workspace, 0, size.counter_bytes(), stream));
  return place_in(options.workspace, size);
}

Result<CudaSplitMemory::Place> CudaSplitMemory::of_capture(cu::Stream stream, std::uint64_t capture, cu::Graph graph,
                                                           const Size& size) {
  const CudaDriver& driver = context_.driver();
  const Shared::Captured by{capture, stream};
  const Piece* piece = nullptr;
  {
    const std::lock_guard lock(shared_->mutex);
    const auto found = shared_->captured.find(by);
    if (found != shared_->captured.end() && found->second->holds(size)) return found->second->place();
    TS_ASSIGN(piece, take(size, size));
    shared_->captured[by] = piece;
  }
  // Without the lock: the driver may call give_back.
  auto held = std::make_unique<Held>(shared_, by, piece);
  cu::UserObject object = nullptr;
  if (const Status made = cuda_status(
          driver, driver.user_object_create(&object, held.get(), &Held::give_back, 1, cu::kUserObjectNoSync),
          "giving a captured graph its memory");
      !made) {
    Held::give_back(held.release());
    return std::unexpected(made.error());
  }
  held.release();  // the object's now
  if (const Status kept =
          cuda_status(driver, driver.graph_retain_user_object(graph, object, 1, cu::kGraphUserObjectMove),
                      "giving a captured graph its memory");
      !kept) {
    driver.user_object_release(object, 1);
    return std::unexpected(kept.error());
  }
  return piece->place();
}

}  // namespace tilesmith
