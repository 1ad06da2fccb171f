#include "metrics/metrics_page.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

namespace holdfast::cli {
namespace {

std::string text_of_value(double value) {
  // The longest finite number has 309 digits before the point.
  std::array<char, 400> digits{};
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed);
  return {digits.data(), end.ptr};
}

/// The next line, which is taken off the text.
std::string_view take_line(std::string_view& text) {
  const auto end = std::min(text.find('\n'), text.size());
  const auto line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

bool is_plain(std::string_view line) {
  return std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; });
}

bool is_metric_name(std::string_view name) {
  return name.starts_with("holdfast_") && std::ranges::all_of(name, [](char c) {
           return c == '_' || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
         });
}

std::string_view name_in(std::string_view series) {
  return series.substr(0, series.find('{'));
}

/// Whether a series of this name belongs to the family.
bool belongs_to(std::string_view name, std::string_view family, std::string_view type) {
  if (name == family) return type != "histogram";
  if (type != "histogram" || !name.starts_with(family)) return false;
  const auto suffix = name.substr(family.size());
  return suffix == "_bucket" || suffix == "_sum" || suffix == "_count";
}

std::string_view bound_in(std::string_view series) {
  const auto at = series.find("le=\"");
  return at == std::string_view::npos ? std::string_view() : series.substr(at, series.find('"', at + 4) - at);
}

}  // namespace

MetricsPage MetricsPage::parse(std::string_view text) {
  MetricsPage page;
  std::string_view help;
  while (!text.empty()) {
    const auto line = take_line(text);
    constexpr std::string_view help_mark = "# HELP ";
    constexpr std::string_view type_mark = "# TYPE ";
    if (!is_plain(line)) continue;
    if (line.starts_with(help_mark)) {
      help = line.substr(help_mark.size());
    } else if (line.starts_with(type_mark)) {
      const auto rest = line.substr(type_mark.size());
      const auto space = rest.find(' ');
      const auto name = rest.substr(0, space);
      const auto type = space == std::string_view::npos ? std::string_view() : rest.substr(space + 1);
      const bool known = type == "counter" || type == "gauge" || type == "histogram";
      if (!known || !is_metric_name(name) || page.find(name) != nullptr) continue;
      const bool has_help = help.starts_with(name) && help.substr(name.size()).starts_with(' ');
      page.family(name, type, has_help ? help.substr(name.size() + 1) : std::string_view());
    } else if (!page.families_.empty() && !line.starts_with('#')) {
      auto& family = page.families_.back();
      const auto space = line.rfind(' ');
      if (space == std::string_view::npos) continue;
      const auto series = line.substr(0, space);
      double value = 0;
      const auto digits = line.substr(space + 1);
      const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      const bool is_number = parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size();
      const auto labels = series.substr(name_in(series).size());
      if (!is_number || !std::isfinite(value) || !belongs_to(name_in(series), family.name, family.type) ||
          (!labels.empty() && !labels.ends_with('}'))) {
        continue;
      }
      family.samples.push_back({std::string(series), value});
    }
  }
  return page;
}

MetricsPage::Family* MetricsPage::find(std::string_view name) {
  const auto found = std::ranges::find(families_, name, &Family::name);
  return found == families_.end() ? nullptr : &*found;
}

void MetricsPage::family(std::string_view name, std::string_view type, std::string_view help) {
  families_.push_back(
      {.name = std::string(name), .type = std::string(type), .help = std::string(help), .samples = {}});
}

void MetricsPage::sample(std::string_view labels, double value) {
  auto& family = families_.back();
  auto series = family.name;
  if (!labels.empty()) series.append("{").append(labels).append("}");
  family.samples.push_back({std::move(series), value});
}

void MetricsPage::filter(const std::function<bool(std::string_view)>& keep) {
  std::erase_if(families_, [&](const Family& family) { return !keep(family.name); });
}

void MetricsPage::add_label(std::string_view name, std::string_view value) {
  const auto label = std::string(name) + "=\"" + std::string(value) + "\"";
  for (auto& family : families_) {
    for (auto& [series, number] : family.samples) {
      const auto brace = series.find('{');
      if (brace == std::string::npos) {
        series.append("{").append(label).append("}");
      } else {
        series.insert(brace + 1, label + ",");
      }
    }
  }
}

void MetricsPage::add_counters(Family& now, const Family& earlier, std::string_view label) {
  const auto is_ours = [&](const Sample& sample) { return sample.series.find(label) != std::string::npos; };
  const auto bounds_of = [&](const Family& family) {
    std::set<std::string> bounds;
    for (const auto& sample : family.samples) {
      if (is_ours(sample)) bounds.emplace(bound_in(sample.series));
    }
    return bounds;
  };
  const bool both = !now.samples.empty() && std::ranges::any_of(earlier.samples, is_ours);
  if (now.type == "histogram" && both && bounds_of(now) != bounds_of(earlier)) return;
  for (const auto& sample : earlier.samples) {
    if (!is_ours(sample) || sample.value < 0) continue;
    const auto same = std::ranges::find(now.samples, sample.series, &Sample::series);
    if (same != now.samples.end()) {
      same->value += sample.value;
    } else {
      now.samples.push_back(sample);
    }
  }
}

void MetricsPage::add_counters_of(const MetricsPage& earlier, std::string_view label_name,
                                  std::string_view label_value) {
  const auto label = "{" + std::string(label_name) + "=\"" + std::string(label_value) + "\"";
  for (const auto& family : earlier.families_) {
    if (family.type == "gauge") continue;
    auto* const now = find(family.name);
    if (now != nullptr && now->type == family.type) add_counters(*now, family, label);
  }
}

void MetricsPage::append(MetricsPage other) {
  for (auto& family : other.families_) families_.push_back(std::move(family));
}

double MetricsPage::value(std::string_view series) const {
  for (const auto& family : families_) {
    const auto found = std::ranges::find(family.samples, series, &Sample::series);
    if (found != family.samples.end()) return found->value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

std::string MetricsPage::text() const {
  std::string text;
  for (const auto& family : families_) {
    text.append("# HELP ").append(family.name).append(" ").append(family.help).append("\n");
    text.append("# TYPE ").append(family.name).append(" ").append(family.type).append("\n");
    for (const auto& [series, value] : family.samples) {
      text.append(series).append(" ").append(text_of_value(value)).append("\n");
    }
  }
  return text;
}

}  // namespace holdfast::cli
