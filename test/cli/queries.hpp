#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "support/prometheus_page.hpp"

namespace holdfast::test {

/// The names and labels of real metrics: what queries of a dashboard may ask for.
class KnownSeries {
 public:
  void add(const PrometheusPage& page);
  /// What is wrong with a PromQL expression: metrics, labels and values of labels that no real page has, and
  /// words that it does not know. Empty if nothing is. Knows as much of the language as the dashboard and the
  /// alerts use.
  [[nodiscard]] std::vector<std::string> problems_of(std::string_view expression) const;
  /// The same for the labels that a legend names: `{{label}}`.
  [[nodiscard]] std::vector<std::string> problems_of_legend(std::string_view legend) const;

 private:
  /// By metric, by label: the values.
  std::map<std::string, std::map<std::string, std::set<std::string>>> metrics_;
  std::set<std::string> labels_{"instance", "job"};  ///< these two are Prometheus' own
};

}  // namespace holdfast::test
