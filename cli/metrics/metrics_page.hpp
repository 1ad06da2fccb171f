#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::cli {

/// A page in the Prometheus text format 0.0.4, of families that Holdfast writes.
class MetricsPage {
 public:
  /// Reads a page. Leaves out what it does not understand: a file may have been written by another version,
  /// or by another program.
  [[nodiscard]] static MetricsPage parse(std::string_view text);

  /// Begins a family; `name` is not in the page yet.
  void family(std::string_view name, std::string_view type, std::string_view help);
  /// Adds a sample to the family that was begun last. `labels`: `name="value",...`, or empty.
  void sample(std::string_view labels, double value);

  /// Keeps the families for which `keep(name)` is true.
  void filter(const std::function<bool(std::string_view)>& keep);
  /// Adds a label to every series, before its others. `value` needs no escapes.
  void add_label(std::string_view name, std::string_view value);
  /// Adds the counters and histograms of an earlier page to those of this one, series by series; only series
  /// that have this label, as add_label writes it. A histogram with other buckets is left out.
  void add_counters_of(const MetricsPage& earlier, std::string_view label_name, std::string_view label_value);
  /// Puts the families of another page behind those of this one.
  void append(MetricsPage other);

  /// The value of a series, written as it is in the text; NaN if there is none.
  [[nodiscard]] double value(std::string_view series) const;
  [[nodiscard]] std::string text() const;

 private:
  struct Sample {
    std::string series;  ///< `name{label="value",...}`
    double value = 0;
  };
  struct Family {
    std::string name, type, help;
    std::vector<Sample> samples;
  };
  [[nodiscard]] Family* find(std::string_view name);
  static void add_counters(Family& now, const Family& earlier, std::string_view label);

  std::vector<Family> families_;
};

}  // namespace holdfast::cli
