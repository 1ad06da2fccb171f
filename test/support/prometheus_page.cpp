#include "support/prometheus_page.hpp"

#include <cmath>
#include <cstdlib>
#include <regex>

namespace holdfast::test {
namespace {

[[noreturn]] void refuse(std::string_view line, const std::string& why) {
  throw std::runtime_error(why + ": " + std::string(line));
}

void check(bool holds, std::string_view line, const std::string& why) {
  if (!holds) refuse(line, why);
}

double number(std::string_view line, const std::string& text) {
  if (text == "+Inf") return INFINITY;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  check(!text.empty() && *end == '\0', line, "not a number");
  return value;
}

std::string unescaped(std::string_view line, const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      plain += text[i];
      continue;
    }
    check(++i < text.size() && (text[i] == '\\' || text[i] == '"' || text[i] == 'n'), line, "a bad escape");
    plain += text[i] == 'n' ? '\n' : text[i];
  }
  return plain;
}

std::string series_name(const std::string& name, const std::map<std::string, std::string>& labels) {
  std::string series = name;
  char before = '{';
  for (const auto& [label, value] : labels) {
    series += before + label + "=\"" + value + '"';
    before = ',';
  }
  return before == ',' ? series + '}' : series;
}

bool ends_with(const std::string& text, std::string_view end) {
  return std::string_view(text).ends_with(end);
}

}  // namespace

PrometheusPage::PrometheusPage(std::string_view text) {
  check(text.ends_with('\n'), "", "the last line has no end");
  while (!text.empty()) {
    const auto end = text.find('\n');
    read_line(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  end_family();
}

double PrometheusPage::value(const std::string& series) const {
  const auto found = samples_.find(series);
  if (found == samples_.end()) throw std::runtime_error("there is no " + series);
  return found->second;
}

void PrometheusPage::read_line(std::string_view line) {
  if (line.starts_with('#')) return read_comment(line);
  check(!line.empty(), line, "an empty line");
  read_sample(line);
}

void PrometheusPage::read_comment(std::string_view line) {
  static const std::regex help("# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) ([^\\n]+)");
  static const std::regex type("# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram)");
  std::smatch found;
  const std::string text(line);
  if (std::regex_match(text, found, help)) {
    end_family();
    check(helped_.empty(), line, "the family before has no TYPE");
    helped_ = found[1];
    check(!types_.contains(helped_), line, "a family that was there before");
  } else if (std::regex_match(text, found, type)) {
    check(found[1] == helped_, line, "a TYPE without its HELP");
    family_ = found[1];
    helped_.clear();
    types_[family_] = found[2];
    check(ends_with(family_, "_total") == (found[2] == "counter"), line,
          "counters, and only they, are _total");
  } else {
    refuse(line, "neither HELP nor TYPE");
  }
}

void PrometheusPage::read_sample(std::string_view line) {
  static const std::regex sample("([a-zA-Z_:][a-zA-Z0-9_:]*)(\\{(.*)\\})? ([^ ]+)");
  static const std::regex label("([a-zA-Z_][a-zA-Z0-9_]*)=\"((?:[^\"\\\\]|\\\\.)*)\"(,|$)");
  check(!family_.empty() && helped_.empty(), line, "a sample without HELP and TYPE");
  std::smatch found;
  const std::string text(line);
  check(std::regex_match(text, found, sample), line, "not a sample");
  const std::string name = found[1];
  const std::string in_braces = found[3];
  const double value = number(line, found[4]);
  check(value >= 0, line, "below zero");

  Labels labels;
  for (auto at = in_braces.begin(); at != in_braces.end();) {
    std::smatch one;
    check(std::regex_search(at, in_braces.end(), one, label, std::regex_constants::match_continuous), line,
          "not labels");
    check(labels.emplace(one[1], unescaped(line, one[2])).second, line, "a label twice");
    check(one[3] == "," || one[0].second == in_braces.end(), line, "not labels");
    at = one[0].second;
  }
  check(samples_.emplace(series_name(name, labels), value).second, line, "a series twice");
  if (types_[family_] == "histogram") return add_to_histogram(name, std::move(labels), value);
  check(name == family_, line, "not of this family");
  check(!labels.contains("le"), line, "a bound without a histogram");
}

void PrometheusPage::add_to_histogram(const std::string& name, Labels labels, double value) {
  const auto bound = labels.extract("le");
  auto& buckets = histograms_[series_name(family_, labels)];
  if (name == family_ + "_bucket") {
    check(!bound.empty(), name, "a bucket without a bound");
    buckets.bounds.emplace_back(number(name, bound.mapped()), value);
    return;
  }
  check(bound.empty(), name, "a bound outside a bucket");
  if (name == family_ + "_sum") {
    buckets.has_sum = true;
  } else {
    check(name == family_ + "_count", name, "not of this histogram");
    buckets.count = value;
  }
}

void PrometheusPage::end_family() {
  for (const auto& [series, buckets] : histograms_) {
    const auto& bounds = buckets.bounds;
    check(!bounds.empty() && std::isinf(bounds.back().first), series, "the last bound is not +Inf");
    check(buckets.has_sum && buckets.count == bounds.back().second, series, "+Inf is not the count");
    for (std::size_t i = 1; i < bounds.size(); ++i) {
      check(bounds[i - 1].first < bounds[i].first, series, "bounds that do not rise");
      check(bounds[i - 1].second <= bounds[i].second, series, "buckets that are not cumulative");
    }
  }
  histograms_.clear();
}

}  // namespace holdfast::test
