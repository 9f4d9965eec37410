// `tilesmith list` as a library: a request in plain words, checked once, then walked as often as one likes.
//
//   ListRequest request{.arch = "gfx950", .filters = {"c.head_dim_qk == 128"}};
//   TS_ASSIGN(const Listing listing, Listing::prepare(request));
//   ListStatistics statistics;
//   TS_TRY(listing.walk([](const KernelConfig& config) { ...; return true; }, statistics));
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "instances/mode.hpp"
#include "instances/sink.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// The GEMM whose instances are asked for.
struct GemmSizes {
  std::int64_t m = 1, n = 1, k = 1;
  std::int64_t batch = 1;
  bool unaligned = false;
};

struct ListRequest {
  std::string arch;
  Operation operation = Operation::attention;
  std::optional<Origin> origin{};  ///< absent: Composable Kernel's for AMD chips, Tilesmith's own kernels for others
  std::string
      variant{};  ///< empty: all of the operation, of own GEMM kernels the standard ones; "all": every one of GEMM
  std::string receipt = "0";  ///< attention: a number, or the name of a profile (which then filters too)
  EnumerationMode mode = EnumerationMode::rules;
  std::string sweep_file{};  ///< attention: a sweep file
  std::string rule_set{};    ///< conv: default, tiny, full, full-tests; GEMM: default, or the name of a preselected set
  std::string layout = "rcr";                    ///< GEMM; "all" for native kernels
  std::vector<std::string> data_types{};         ///< empty: all
  std::optional<GemmSizes> sizes{};              ///< GEMM on NVIDIA: only what computes a product of these, best first
  std::vector<int> spatial_dims{};               ///< conv; empty: those of the rule set
  std::vector<std::pair<int, int>> head_dims{};  ///< attention; empty: all
  std::vector<std::string> filters{};            ///< expressions (filter.hpp); all must hold
  std::vector<std::string> filter_files{};       ///< files that hold one expression each
};

struct ListStatistics {
  struct Dropped {
    std::string rule;
    std::uint64_t count = 0;
  };
  std::uint64_t enumerated = 0;
  std::uint64_t listed = 0;
  std::uint64_t filtered = 0;                                   ///< refused by a filter
  std::vector<Dropped> dropped;                                 ///< mode sound: by the first rule that refused
  std::vector<std::pair<std::string, std::uint64_t>> families;  ///< of those listed
};

class Listing {
 public:
  /// Checks everything the request names; an error says what is unknown and what is near.
  [[nodiscard]] static Result<Listing> prepare(ListRequest request);

  /// Sends every instance to the sink, in the vendor's order. Memory does not depend on the list's length.
  [[nodiscard]] Status walk(ConfigSink sink, ListStatistics& statistics) const;

  [[nodiscard]] const ListRequest& request() const { return request_; }

  Listing(Listing&&) noexcept;
  Listing& operator=(Listing&&) noexcept;
  ~Listing();

 private:
  struct Plan;
  Listing(ListRequest request, std::unique_ptr<Plan> plan);

  ListRequest request_;
  std::unique_ptr<Plan> plan_;
};

}  // namespace tilesmith
