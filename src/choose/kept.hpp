// What choosing works out for a key, such as a signature, and uses again for the next problem of it. Each value is lent
// to one user at a time and may learn more while it is used; nobody waits for another: whoever finds none makes one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/fork.hpp"

namespace tilesmith {

/// The values that were used last. Thread-safe.
template <class Key, class Value>
class Kept {
 public:
  static constexpr std::size_t kMost = 32;

  Kept() { entries_.reserve(kMost); }

  /// Null where there is none that nobody uses.
  [[nodiscard]] std::unique_ptr<Value> take(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(entries_, key, &Entry::first);
    if (found == entries_.end()) return nullptr;
    std::unique_ptr<Value> value = std::move(found->second);
    entries_.erase(found);
    return value;
  }

  /// Several of one key are kept, as many as were in use at a time. The one that was not used for longest goes.
  void keep(const Key& key, std::unique_ptr<Value> value) noexcept {
    const std::lock_guard lock(mutex_);
    if (entries_.size() == kMost) entries_.erase(entries_.begin());
    entries_.emplace_back(key, std::move(value));  // there is room
  }

  [[nodiscard]] std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }

 private:
  using Entry = std::pair<Key, std::unique_ptr<Value>>;

  /// In a forked child.
  void begin_anew() {
    if (!renew(mutex_)) return;
    new (&entries_) std::vector<Entry>;
    entries_.reserve(kMost);
  }

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;  ///< the one used last is the last
  AtFork at_fork_{this, [](void* kept) { static_cast<Kept*>(kept)->begin_anew(); }};
};

/// A value for the life of this object: one that was kept, and goes back, or, without a place to keep it, its own.
template <class Key, class Value>
class Lent {
 public:
  /// `make()` returns a Value.
  template <class Make>
  Lent(Kept<Key, Value>* kept, const Key& key, Make make) : kept_(kept), key_(key) {
    if (kept_ != nullptr) value_ = kept_->take(key_);
    if (value_ == nullptr) value_ = std::make_unique<Value>(make());
  }
  ~Lent() {
    if (kept_ != nullptr) kept_->keep(key_, std::move(value_));
  }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;

  Value& operator*() const { return *value_; }
  Value* operator->() const { return value_.get(); }

 private:
  Kept<Key, Value>* kept_;
  Key key_;
  std::unique_ptr<Value> value_;
};

}  // namespace tilesmith
