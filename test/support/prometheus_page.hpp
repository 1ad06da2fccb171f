#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::test {

/// A page in the Prometheus text format 0.0.4, read strictly and knowing nothing of how it was written.
class PrometheusPage {
 public:
  /// Throws std::runtime_error, with the line, for whatever the format or its conventions do not allow: a
  /// sample without its family's HELP and TYPE, families that come twice or apart, series that come twice,
  /// names and escapes that are none, counters not named `_total`, histograms that are not cumulative or
  /// whose
  /// `+Inf` is not their count.
  explicit PrometheusPage(std::string_view text);

  /// `name{label="value",...}` with the labels sorted by name, as they are written; throws if there is none.
  [[nodiscard]] double value(const std::string& series) const;
  [[nodiscard]] bool has(const std::string& series) const { return samples_.contains(series); }
  /// All of them, as value() names them.
  [[nodiscard]] const std::map<std::string, double>& samples() const noexcept { return samples_; }
  [[nodiscard]] const std::map<std::string, std::string>& types() const noexcept { return types_; }

 private:
  using Labels = std::map<std::string, std::string>;  ///< unescaped
  struct Buckets {
    std::vector<std::pair<double, double>> bounds;
    bool has_sum = false;
    double count = -1;
  };

  void read_line(std::string_view line);
  void read_comment(std::string_view line);
  void read_sample(std::string_view line);
  void add_to_histogram(const std::string& name, Labels labels, double value);
  void end_family();

  std::string family_;
  std::string helped_;  ///< the family that has its HELP and awaits its TYPE
  std::map<std::string, std::string> types_;
  std::map<std::string, double> samples_;
  std::map<std::string, Buckets> histograms_;  ///< of the family, by their labels without `le`
};

}  // namespace holdfast::test
