// What bench says of its rows: how far it is, failures as they come, and at the end a table and a JSON document.
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/json.hpp"
#include "cli/work_progress.hpp"
#include "sweep/engine.hpp"
#include "sweep/summary_table.hpp"

namespace tilesmith::cli {

class BenchReport {
 public:
  /// `device` as the user named it. `keeps_rows`: document() is wanted.
  BenchReport(PeerTimes peers, std::string device, bool keeps_rows)
      : device_(std::move(device)), keeps_rows_(keeps_rows), table_(std::move(peers)) {}

  /// For run_bench, which it must outlive.
  [[nodiscard]] BenchProgress progress();
  void end(const BenchSummary& summary);

  void print(const BenchSummary& summary) const;
  [[nodiscard]] nlohmann::json document(const BenchSummary& summary, const nlohmann::json& about);

 private:
  void add(const BenchRow& row);
  void say_failure(const BenchRow& row);

  std::string device_;
  bool keeps_rows_;
  SummaryTable table_;
  nlohmann::json rows_ = nlohmann::json::array();
  std::map<std::string, std::size_t> skipped_;
  WorkProgress work_{"measuring"};
  std::size_t failures_ = 0, problems_ = 0;
  std::set<std::string> compilers_words_;  ///< a broken compiler says the same of every kernel
};

}  // namespace tilesmith::cli
