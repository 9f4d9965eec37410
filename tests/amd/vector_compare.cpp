// Vector comparisons: VOPC. V_CMP writes a lane's bit of a mask, V_CMPX also EXEC ("VOPC instructions", CDNA 3
// ISA 12.11, RDNA 3 and RDNA 4 ISA 16.12).
#include <deque>
#include <string>
#include <vector>

#include "amd/lanes.hpp"
#include "amd/operations.hpp"

namespace tilesmith::amdgpu {
namespace {

enum class Relation {
  never,
  less,
  equal,
  less_equal,
  greater,
  less_greater,
  greater_equal,
  ordered,
  unordered,
  not_greater_equal,
  not_less_greater,
  not_greater,
  not_less_equal,
  not_equal,
  not_less,
  always,
};

struct Name {
  std::string_view text;
  Relation relation;
};
constexpr Name kFloatNames[] = {
    {"lt", Relation::less},
    {"eq", Relation::equal},
    {"le", Relation::less_equal},
    {"gt", Relation::greater},
    {"lg", Relation::less_greater},
    {"ge", Relation::greater_equal},
    {"o", Relation::ordered},
    {"u", Relation::unordered},
    {"nge", Relation::not_greater_equal},
    {"nlg", Relation::not_less_greater},
    {"ngt", Relation::not_greater},
    {"nle", Relation::not_less_equal},
    {"neq", Relation::not_equal},
    {"nlt", Relation::not_less},
    {"f", Relation::never},
    {"tru", Relation::always},
};
constexpr Name kIntegerNames[] = {
    {"lt", Relation::less},    {"eq", Relation::equal},     {"le", Relation::less_equal},
    {"gt", Relation::greater}, {"ne", Relation::not_equal}, {"ge", Relation::greater_equal},
    {"f", Relation::never},    {"t", Relation::always},
};

template <Relation kRelation, class T>
bool holds(T a, T b) {
  switch (kRelation) {
    case Relation::never:
      return false;
    case Relation::less:
      return a < b;
    case Relation::equal:
      return a == b;
    case Relation::less_equal:
      return a <= b;
    case Relation::greater:
      return a > b;
    case Relation::less_greater:
      return a < b || a > b;
    case Relation::greater_equal:
      return a >= b;
    case Relation::ordered:
      return a == a && b == b;
    case Relation::unordered:
      return a != a || b != b;
    case Relation::not_greater_equal:
      return !(a >= b);
    case Relation::not_less_greater:
      return !(a < b || a > b);
    case Relation::not_greater:
      return !(a > b);
    case Relation::not_less_equal:
      return !(a <= b);
    case Relation::not_equal:
      return !(a == b);
    case Relation::not_less:
      return !(a < b);
    case Relation::always:
      return true;
  }
}

template <class T>
auto number(T x) {
  if constexpr (std::is_same_v<T, F16>)
    return value_of(x);
  else
    return x;
}

/// Operand 0 is the mask: EXEC for V_CMPX of RDNA.
template <class T, Relation kRelation, bool kWritesExec>
void compare(Wave& wave, const Instruction& in) {
  const Source<T> a(wave, in, 1), b(wave, in, 2);
  u64 bits = 0;
  for (int lane = 0; lane < kLanes; ++lane)
    bits |= static_cast<u64>(holds<kRelation>(number(a[lane]), number(b[lane]))) << lane;
  const u64 lanes = written_lanes(wave, in);
  write_mask(wave, in.at(0), bits, lanes);
  if constexpr (kWritesExec) wave.set_mask(kExec, bits & lanes);
}

/// Kinds of values by the bits of the second operand (V_CMP_CLASS).
template <class T>
bool is_of_class(T x, u32 classes) {
  using Bits = std::conditional_t<sizeof(T) == 4, u32, u64>;
  const auto bits = std::bit_cast<Bits>(x);
  constexpr int kMantissa = sizeof(T) == 4 ? 23 : 52;
  constexpr Bits kFraction = (Bits{1} << kMantissa) - 1, kLargest = sizeof(T) == 4 ? 255 : 2047;
  const Bits fraction = bits & kFraction, exponent = bits >> kMantissa & kLargest;
  const bool negative = (bits >> (8 * sizeof(T) - 1)) != 0;
  int which;
  if (exponent == kLargest && fraction != 0)
    which = (fraction >> (kMantissa - 1)) != 0 ? 1 : 0;
  else if (exponent == kLargest)
    which = negative ? 2 : 9;
  else if (exponent != 0)
    which = negative ? 3 : 8;
  else if (fraction != 0)
    which = negative ? 4 : 7;
  else
    which = negative ? 5 : 6;
  return (classes >> which & 1) != 0;
}
template <class T, bool kWritesExec>
void compare_class(Wave& wave, const Instruction& in) {
  const Source<T> a(wave, in, 1);
  const Source<u32> classes(wave, in, 2);
  u64 bits = 0;
  for (int lane = 0; lane < kLanes; ++lane) bits |= static_cast<u64>(is_of_class(a[lane], classes[lane])) << lane;
  write_mask(wave, in.at(0), bits, wave.exec());
  if constexpr (kWritesExec) wave.set_mask(kExec, bits & wave.exec());
}

class Table {
 public:
  Table() {
    add<float>(kFloatNames, "f32");
    add<double>(kFloatNames, "f64");
    add<F16>(kFloatNames, "f16");
    add<i32>(kIntegerNames, "i32");
    add<u32>(kIntegerNames, "u32");
    add<i64>(kIntegerNames, "i64");
    add<u64>(kIntegerNames, "u64");
    add<i16>(kIntegerNames, "i16");
    add<u16>(kIntegerNames, "u16");
    operations_.push_back({"v_cmp_class_f32", compare_class<float, false>});
    operations_.push_back({"v_cmpx_class_f32", compare_class<float, true>});
    operations_.push_back({"v_cmp_class_f64", compare_class<double, false>});
  }
  [[nodiscard]] std::span<const Operation> operations() const { return operations_; }

 private:
  template <class T, std::size_t kCount>
  void add(const Name (&names)[kCount], std::string_view type) {
    for (const Name& name : names) {
      add_one<T, false>(fmt::format("v_cmp_{}_{}", name.text, type), name.relation);
      add_one<T, true>(fmt::format("v_cmpx_{}_{}", name.text, type), name.relation);
    }
  }
  template <class T, bool kWritesExec>
  void add_one(std::string mnemonic, Relation relation) {
    names_.push_back(std::move(mnemonic));
    operations_.push_back({names_.back(), handler<T, kWritesExec>(relation, std::make_integer_sequence<int, 16>())});
  }
  template <class T, bool kWritesExec, int... kRelations>
  static Handler handler(Relation relation, std::integer_sequence<int, kRelations...>) {
    static constexpr Handler kHandlers[] = {compare<T, static_cast<Relation>(kRelations), kWritesExec>...};
    return kHandlers[static_cast<int>(relation)];
  }

  std::deque<std::string> names_;
  std::vector<Operation> operations_;
};

}  // namespace

std::span<const Operation> compare_operations() {
  static const Table table;
  return table.operations();
}

}  // namespace tilesmith::amdgpu
