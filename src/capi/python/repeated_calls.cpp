// Repeated calls of the Python package without its Python: a call whose tensors look as those of a call before, and
// whose other arguments are the same, stores its pointers in that call's structure and runs.
// python/tilesmith/_repeated.py is the other side, and says what the tuples hold.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "capi/python/python.hpp"
#include "capi/python/question.hpp"
#include "capi/python/tensors.hpp"
#include "capi/repeat.hpp"
#include "tilesmith.h"

namespace tilesmith::capi::python {
namespace {

constexpr const char* kName = "tilesmith.repeated_calls";
constexpr std::size_t kMostArguments = 64;
constexpr std::size_t kMostBytes = 2048;  // of a structure
constexpr std::size_t kMostCalls = 1024;  // more are of shapes that do not repeat
constexpr std::size_t kMostOutputs = 3;

/// A reference that its owner holds.
class Held {
 public:
  Held() = default;
  /// Takes the reference over.
  Held(const Python& python, Object* object) : python_(&python), object_(object) {}
  static Held shared(const Python& python, Object* object) {
    python.add_reference(object);
    return {python, object};
  }
  Held(Held&& other) noexcept : python_(other.python_), object_(std::exchange(other.object_, nullptr)) {}
  Held& operator=(Held&& other) noexcept {
    std::swap(python_, other.python_);
    std::swap(object_, other.object_);
    return *this;
  }
  ~Held() {
    if (object_ != nullptr) python_->drop_reference(object_);
  }
  [[nodiscard]] Object* get() const { return object_; }
  [[nodiscard]] Object* release() { return std::exchange(object_, nullptr); }

 private:
  const Python* python_ = nullptr;
  Object* object_ = nullptr;
};

/// The items of a tuple.
class Items {
 public:
  Items(const Python& python, Object* tuple) : python_(&python), tuple_(tuple) {}
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(python_->size(tuple_)); }
  [[nodiscard]] Object* operator[](std::size_t at) const {
    return python_->item(tuple_, static_cast<std::intptr_t>(at));
  }
  [[nodiscard]] Items items(std::size_t at) const { return {*python_, (*this)[at]}; }
  [[nodiscard]] std::int64_t number(std::size_t at) const { return python_->integer((*this)[at]); }
  [[nodiscard]] std::size_t index(std::size_t at) const { return static_cast<std::size_t>(number(at)); }
  [[nodiscard]] const char* text(std::size_t at) const { return python_->bytes((*this)[at]); }
  [[nodiscard]] Held held(std::size_t at) const { return Held::shared(*python_, (*this)[at]); }
  [[nodiscard]] Held held() const { return Held::shared(*python_, tuple_); }

 private:
  const Python* python_;
  Object* tuple_;
};

enum class Kind : char { tensor, object, number };

struct Place {
  std::size_t argument, word;
};

struct Span {
  std::size_t argument;
  std::int64_t bytes;
};

/// What a function of Python makes, like a tensor among the arguments or like none: a result, or room for the call.
struct Output {
  bool is_result;
  std::size_t word;
  std::int64_t like;  // -1: none
  Held maker, arguments, named;
};

/// Of a kernel for which Python's lock is kept: giving it up and taking it again is a part of a tiny product's time
/// (docs/log/2026-11-cpu-kernels.md), and whoever waits for the lock asks for it once in 5 ms (sys.getswitchinterval).
constexpr double kShortSeconds = 10e-6;

/// As _repeated.py counts them.
constexpr const Repeat* kOperations[] = {&repeat_attention, &repeat_conv, &repeat_gemm};

struct Call {
  std::vector<std::int64_t> key;
  std::vector<Held> held;  // what the key tells by its address, and what the structure points to
  const Repeat* operation = nullptr;
  const void* plan = nullptr;  // null on GPUs, where pointers decide about it
  bool is_short = false;       // it takes less than what it costs others to wait for it
  std::vector<std::byte> structure;
  std::vector<Place> pointers;
  std::vector<Place> number;         // none, or a number among the arguments and its word, of four bytes
  std::vector<std::size_t> factors;  // tensors of one float that it is multiplied by
  std::vector<Output> outputs;
  std::vector<Span> apart;         // none, or an output and the inputs that it must not overlap
  std::vector<Place> stream;       // none, or a device, whose stream is asked for, and its word
  std::vector<std::size_t> parts;  // tensors that may be negated
  std::int64_t returned = -1;      // an argument that is the result in place of the first output
};

/// Four sums, none of which waits for another: a call has a hundred words and more.
std::uint64_t hash_of(std::span<const std::int64_t> words) {
  constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15;
  std::array<std::uint64_t, 4> sums = {words.size(), 1, 2, 3};
  std::size_t i = 0;
  for (; i + sums.size() <= words.size(); i += sums.size())
    for (std::size_t lane = 0; lane < sums.size(); ++lane) {
      const std::uint64_t mixed = (sums[lane] ^ static_cast<std::uint64_t>(words[i + lane])) * kFactor;
      sums[lane] = mixed ^ mixed >> 32;
    }
  for (; i < words.size(); ++i) sums[0] = (sums[0] ^ static_cast<std::uint64_t>(words[i])) * kFactor;
  std::uint64_t hash = 0;
  for (const std::uint64_t sum : sums) hash = (hash ^ sum ^ sum >> 29) * kFactor;
  return hash;
}

/// What a call looks like, and where its tensors lie.
struct Look {
  Words words;
  std::array<std::int64_t, kMostArguments> addresses;
  double number = 1;
};

class RepeatedCalls {
 public:
  RepeatedCalls(const Python& python, const Items& setup)
      : python_(python),
        library_{reinterpret_cast<const DlExchange*>(setup.number(2))},
        setup_(setup.held()),
        requires_grad_(setup.held(5)),
        forward_mode_(setup.held(6)),
        level_(setup.held(7)),
        stream_(setup.held(8)),
        is_negated_(setup.held(9)) {
    const Items kinds = setup.items(0), types = setup.items(1), asked = setup.items(3);
    for (std::size_t i = 0; i < kinds.size(); ++i) kinds_.push_back(static_cast<Kind>(kinds.number(i)));
    for (std::size_t i = 0; i < types.size(); ++i) types_.push_back(types[i]);  // their modules hold them
    for (std::size_t i = 0; i < asked.size(); ++i) asked_.push_back(question_of(asked.items(i)));
    if (setup[4] != python_.none) grad_enabled_ = question_of(setup.items(4));
  }

  /// The result; NotImplemented where there was no such call, or it fails: Python's way then tells why. Null: an error.
  Object* run(std::span<Object* const> given) {
    Look look;
    if (!describe(given, look, nullptr)) return not_implemented();
    const auto found = calls_.find(hash_of(look.words.get()));
    if (found == calls_.end() || !std::ranges::equal(found->second->key, look.words.get())) return not_implemented();
    const std::shared_ptr<const Call> held = found->second;  // whatever Python does meanwhile
    const Call& call = *held;
    if (overlaps(call, look)) return not_implemented();
    const std::span<Object* const> arguments = given.subspan(1);
    for (const std::size_t at : call.parts)
      if (arguments[at] != python_.none && is_negated(arguments[at])) return not_implemented();
    alignas(16) std::array<std::byte, kMostBytes> structure;
    std::memcpy(structure.data(), call.structure.data(), call.structure.size());
    const auto store = [&](std::size_t offset, auto value) {
      std::memcpy(structure.data() + offset, &value, sizeof value);
    };
    for (const Place& place : call.pointers) store(8 * place.word, look.addresses[place.argument]);
    for (const Place& place : call.number) store(4 * place.word, number_of(call, look));
    std::array<Held, kMostOutputs> results;
    std::size_t count = 0;  // of those that are returned
    if (call.returned >= 0)
      results[count++] = Held::shared(python_, arguments[static_cast<std::size_t>(call.returned)]);
    Held room;
    for (const Output& output : call.outputs) {
      Held& result = output.is_result ? results[count++] : room;
      result = make(output, arguments);
      if (result.get() == nullptr) return nullptr;
      if (!is_tensor(result.get())) return not_implemented();  // torch has modes that make others
      store(8 * output.word, library_.address(result.get()));
    }
    for (const Place& place : call.stream) {
      const Held stream = ask_stream(place.argument);
      if (stream.get() == nullptr) return nullptr;
      store(8 * place.word, static_cast<std::int64_t>(python_.integer(stream.get())));
    }
    ThreadState* const state = call.is_short ? nullptr : python_.release_lock();
    const tilesmith_status status = call.plan != nullptr ? call.operation->run(call.plan, structure.data())
                                                         : call.operation->compute(nullptr, structure.data());
    if (state != nullptr) python_.take_lock(state);
    if (status != TILESMITH_SUCCESS) return not_implemented();
    if (count == 0) return none();
    return count == 1 ? results[0].release() : tuple_of({results.data(), count}).release();
  }

  /// A call that ran; `told` is what run() needs of it, behind the arguments and the conditions they were given under.
  void keep(const Items& told) {
    const Items arguments = told.items(0);
    std::vector<Object*> given;
    for (std::size_t i = 0; i < arguments.size(); ++i) given.push_back(arguments[i]);
    const auto call = std::make_shared<Call>();
    Look look;
    if (!describe(given, look, &call->held)) return;
    const std::span<const std::int64_t> words = look.words.get();
    call->key.assign(words.begin(), words.end());
    call->operation = kOperations[told.index(1)];
    const auto* const structure = reinterpret_cast<const std::byte*>(told.number(2));
    const std::size_t bytes = told.index(3);
    if (bytes > kMostBytes) return;
    call->structure.assign(structure, structure + bytes);
    places(told.items(4), call->pointers);
    const Items number = told.items(5);  // argument, word, factors
    if (number.size() > 0) call->number.push_back({number.index(0), number.index(1)});
    for (std::size_t i = 2; i < number.size(); ++i) call->factors.push_back(number.index(i));
    places(told.items(6), call->stream);
    if (call->stream.empty() && call->operation->plan_for(nullptr, structure, &call->plan) != TILESMITH_SUCCESS) return;
    const double seconds = call->plan != nullptr ? call->operation->predicted_seconds(call->plan) : 0;
    call->is_short = seconds > 0 && seconds < kShortSeconds;
    call->returned = told.number(7);
    const Items outputs = told.items(8);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Items x = outputs.items(i);
      call->outputs.push_back({x[5] != python_.yes, x.index(0), x.number(1), x.held(2), x.held(3), x.held(4)});
    }
    const Items apart = told.items(9);
    for (std::size_t i = 0; i < apart.size(); i += 2) call->apart.push_back({apart.index(i), apart.number(i + 1)});
    const Items parts = told.items(10);
    for (std::size_t i = 0; i < parts.size(); ++i) call->parts.push_back(parts.index(i));
    if (call->outputs.size() + (call->returned >= 0) > kMostOutputs) return;
    const Items kept = told.items(11);
    for (std::size_t i = 0; i < kept.size(); ++i) call->held.push_back(kept.held(i));
    std::unordered_map<std::uint64_t, std::shared_ptr<const Call>> old;  // dropped when calls_ is whole again
    if (calls_.size() >= kMostCalls) old.swap(calls_);
    calls_.insert_or_assign(hash_of(words), call);
  }

  [[nodiscard]] Object* none() const { return Held::shared(python_, python_.none).release(); }
  [[nodiscard]] Object* not_implemented() const { return Held::shared(python_, python_.not_implemented).release(); }

 private:
  /// Of the conditions and the arguments. False where such a call is not repeated here. What the words tell by its
  /// address is added to `held`.
  bool describe(std::span<Object* const> given, Look& look, std::vector<Held>* held) const {
    if (given.size() != kinds_.size() + 1) return false;
    if (forward_mode_.get() != python_.none && in_forward_mode()) return false;
    const bool grad = grad_enabled_ && is_true(*grad_enabled_);
    if (!add(given[0], look.words, held)) return false;
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      Object* const x = given[i + 1];
      look.addresses[i] = 0;
      if (kinds_[i] == Kind::object) {
        if (!add(x, look.words, held)) return false;
      } else if (kinds_[i] == Kind::number) {
        if (type_of(x) != python_.of_float) return false;
        look.number = python_.number(x);
      } else if (x == python_.none) {
        look.words.add(-1);  // no tensor's first word
      } else {
        if (!is_tensor(x) || (grad && tells_true(python_.attribute(x, requires_grad_.get())))) return false;
        if (!library_.look(x, look.words, look.addresses[i])) return without_error();
        if (Object* const looked = library_.looked_at(x); looked != nullptr && held != nullptr)
          held->push_back(Held::shared(python_, looked));
      }
    }
    for (const Question& question : asked_) {
      if (const auto answer = question.answer()) {
        look.words.add(*answer);
        continue;
      }
      const Held answer(python_, python_.call_without(question.python_function()));
      if (answer.get() == nullptr || !add(answer.get(), look.words, held)) return without_error();
    }
    return !look.words.full();
  }

  /// Numbers, texts and tuples by their values, other objects by their addresses.
  bool add(Object* x, Words& words, std::vector<Held>* held) const {
    enum : std::int64_t { kAddress, kInteger, kFloat, kTuple };
    if (type_of(x) == python_.of_int) {
      words.add(kInteger);
      const long long value = python_.integer(x);
      words.add(value);
      return value != -1 || python_.error() == nullptr || without_error();
    }
    if (type_of(x) == python_.of_float) {
      words.add(kFloat);
      words.add(std::bit_cast<std::int64_t>(python_.number(x)));
      return true;
    }
    if (type_of(x) == python_.of_tuple) {
      const Items items(python_, x);
      words.add(kTuple);
      words.add(static_cast<std::int64_t>(items.size()));
      for (std::size_t i = 0; i < items.size(); ++i)
        if (words.full() || !add(items[i], words, held)) return false;
      return true;
    }
    words.add(kAddress);
    if (held == nullptr && type_of(x) != python_.of_text) {
      words.add(reinterpret_cast<std::int64_t>(x));
      return true;
    }
    python_.add_reference(x);
    if (type_of(x) == python_.of_text) python_.intern(&x);
    Held told(python_, x);
    words.add(reinterpret_cast<std::int64_t>(x));
    if (held != nullptr) held->push_back(std::move(told));
    return true;
  }

  [[nodiscard]] bool is_tensor(const Object* x) const { return std::ranges::find(types_, type_of(x)) != types_.end(); }

  /// Takes the reference; what could not be told counts as true.
  [[nodiscard]] bool tells_true(Object* answer) const {
    if (answer == nullptr) return !without_error();
    const Held held(python_, answer);
    return answer == python_.yes;
  }

  /// The setup holds its function of Python.
  [[nodiscard]] Question question_of(const Items& x) const {
    return {x[0], static_cast<Answers>(x.number(1)), x.text(2), x.text(3)};
  }

  [[nodiscard]] bool is_true(const Question& question) const {
    if (const auto answer = question.answer()) return *answer != 0;
    return tells_true(python_.call_without(question.python_function()));
  }

  [[nodiscard]] bool in_forward_mode() const {
    Object* const level = python_.variable(python_.variables(forward_mode_.get()), level_.get());
    return level == nullptr ? !without_error() : python_.integer(level) >= 0;
  }

  [[nodiscard]] bool is_negated(Object* tensor) const {
    const Held method(python_, python_.attribute(tensor, is_negated_.get()));
    return method.get() == nullptr ? !without_error() : tells_true(python_.call_without(method.get()));
  }

  [[nodiscard]] bool without_error() const {
    python_.clear_error();
    return false;
  }

  static float number_of(const Call& call, const Look& look) {
    double number = look.number;
    for (const std::size_t at : call.factors) {
      float factor = 0;
      std::memcpy(&factor, reinterpret_cast<const void*>(look.addresses[at]), sizeof factor);
      number *= static_cast<double>(factor);
    }
    return static_cast<float>(number);
  }

  static bool overlaps(const Call& call, const Look& look) {
    const auto begin = [&](const Span& span) { return look.addresses[span.argument]; };
    return !call.apart.empty() && std::any_of(call.apart.begin() + 1, call.apart.end(), [&](const Span& input) {
      const Span& output = call.apart.front();
      return begin(input) < begin(output) + output.bytes && begin(output) < begin(input) + input.bytes;
    });
  }

  [[nodiscard]] Held make(const Output& output, std::span<Object* const> arguments) const {
    Object* const named = output.named.get() == python_.none ? nullptr : output.named.get();
    if (output.like < 0) return {python_, python_.call(output.maker.get(), output.arguments.get(), named)};
    const Items more(python_, output.arguments.get());
    const Held all(python_, python_.new_tuple(static_cast<std::intptr_t>(more.size()) + 1));
    if (all.get() == nullptr) return {};
    python_.set_item(all.get(), 0, Held::shared(python_, arguments[static_cast<std::size_t>(output.like)]).release());
    for (std::size_t i = 0; i < more.size(); ++i)
      python_.set_item(all.get(), static_cast<std::intptr_t>(i) + 1, more.held(i).release());
    return {python_, python_.call(output.maker.get(), all.get(), named)};
  }

  [[nodiscard]] Held ask_stream(std::size_t device) const {
    const Held arguments(python_, python_.new_tuple(1));
    if (arguments.get() == nullptr) return {};
    python_.set_item(arguments.get(), 0, python_.new_integer(static_cast<long long>(device)));
    return {python_, python_.call(stream_.get(), arguments.get(), nullptr)};
  }

  [[nodiscard]] Held tuple_of(std::span<Held> results) const {
    Held tuple(python_, python_.new_tuple(static_cast<std::intptr_t>(results.size())));
    for (std::size_t i = 0; tuple.get() != nullptr && i < results.size(); ++i)
      python_.set_item(tuple.get(), static_cast<std::intptr_t>(i), results[i].release());
    return tuple;
  }

  static void places(const Items& flat, std::vector<Place>& out) {
    for (std::size_t i = 0; i + 1 < flat.size(); i += 2) out.push_back({flat.index(i), flat.index(i + 1)});
  }

  const Python& python_;
  const TensorLibrary library_;
  const Held setup_;
  std::optional<Question> grad_enabled_;  // of torch
  const Held requires_grad_;              // the name of an attribute
  const Held forward_mode_, level_;       // a module and the name of its level, of torch
  const Held stream_;
  const Held is_negated_;  // the name of a method
  std::vector<Kind> kinds_;
  std::vector<const void*> types_;
  std::vector<Question> asked_;  // what calls depend on beside their arguments
  std::unordered_map<std::uint64_t, std::shared_ptr<const Call>> calls_;
};

RepeatedCalls& in(Object* capsule) {
  return *static_cast<RepeatedCalls*>(find()->in_capsule(capsule, kName));
}

Object* run(Object* self, Object* const* given, std::intptr_t count) {
  RepeatedCalls& calls = in(self);
  try {
    return calls.run({given, static_cast<std::size_t>(count)});
  } catch (const std::bad_alloc&) {
    return calls.not_implemented();
  }
}

Object* keep(Object* self, Object* const* given, std::intptr_t) {
  RepeatedCalls& calls = in(self);
  try {
    calls.keep({*find(), given[0]});
  } catch (const std::bad_alloc&) {  // it is not kept
  }
  return calls.none();
}

Method run_method{"run", run, kFastCall, nullptr}, keep_method{"keep", keep, kFastCall, nullptr};

}  // namespace
}  // namespace tilesmith::capi::python

void* tilesmith_python_repeated_calls(void* setup) {
  namespace own = tilesmith::capi::python;
  const own::Python* const python = own::find();
  if (python == nullptr) return nullptr;
  // As long as the process: at its end, functions of it may be called until the interpreter is gone.
  auto* const calls = new (std::nothrow) own::RepeatedCalls(*python, {*python, static_cast<own::Object*>(setup)});
  if (calls == nullptr) return nullptr;
  const own::Held capsule(*python, python->new_capsule(calls, own::kName, nullptr));
  own::Object* const both = python->new_tuple(2);
  python->set_item(both, 0, python->new_function(&own::run_method, capsule.get(), nullptr));
  python->set_item(both, 1, python->new_function(&own::keep_method, capsule.get(), nullptr));
  return both;
}
