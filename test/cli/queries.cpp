#include "queries.hpp"

#include <algorithm>
#include <regex>

namespace holdfast::test {

void KnownSeries::add(const PrometheusPage& page) {
  static const std::regex label("([a-z_]+)=\"([^\"]*)\"");
  for (const auto& [series, value] : page.samples()) {
    auto& labels = metrics_[series.substr(0, series.find('{'))];
    for (std::sregex_iterator at(series.begin(), series.end(), label), end; at != end; ++at) {
      labels[(*at)[1]].insert((*at)[2]);
      labels_.insert((*at)[1]);
    }
  }
}

std::vector<std::string> KnownSeries::problems_of(std::string_view expression) const {
  static const std::set<std::string, std::less<>> words{
      "sum", "min", "max", "by", "on", "and", "unless", "rate", "increase", "delta", "histogram_quantile",
      "time"};
  static const std::regex token(
      R"(([A-Za-z_:][A-Za-z0-9_:]*)|(\{[^}]*\})|\[(\$__rate_interval|[0-9]+[mh])\]|[0-9.]+|[-+*/(),<>=! ])");
  static const std::regex matcher(R"re(^([a-z_]+)="([^"]*)"$)re");
  std::vector<std::string> problems;
  const std::string text(expression);
  std::string metric;  // the last one
  bool in_grouping = false;
  std::size_t position = 0;
  for (std::sregex_iterator at(text.begin(), text.end(), token), end; at != end; ++at) {
    if (static_cast<std::size_t>(at->position()) != position) break;
    position += static_cast<std::size_t>(at->length());
    const std::string word = (*at)[1];
    if (at->str() == ")") in_grouping = false;
    if (word == "by" || word == "on") {
      in_grouping = true;
    } else if (in_grouping && !word.empty()) {
      if (!labels_.contains(word)) problems.push_back("no label " + word);
    } else if (metrics_.contains(word)) {
      metric = word;
    } else if (!word.empty() && !words.contains(word)) {
      problems.push_back("no metric " + word);
    }
    if (!(*at)[2].matched) continue;
    const auto braces = (*at)[2].str();
    const auto inside = braces.substr(1, braces.size() - 2);
    std::smatch found;
    if (!std::regex_match(inside, found, matcher)) {
      problems.push_back("not understood: " + inside);
      continue;
    }
    const auto labels = metrics_.find(metric);
    const bool known = labels != metrics_.end() && labels->second.contains(found[1]) &&
                       labels->second.at(found[1]).contains(found[2]);
    if (!known) problems.push_back("no series " + metric + braces);
  }
  if (position != text.size()) problems.push_back("not understood: " + text.substr(position));
  if (metric.empty()) problems.emplace_back("no metric at all");
  return problems;
}

std::vector<std::string> KnownSeries::problems_of_legend(std::string_view legend) const {
  static const std::regex label(R"(\{\{ *([a-z_]*) *\}\})");
  std::vector<std::string> problems;
  const std::string text(legend);
  for (std::sregex_iterator at(text.begin(), text.end(), label), end; at != end; ++at) {
    if (!labels_.contains((*at)[1])) problems.push_back("no label " + (*at)[1].str());
  }
  return problems;
}

}  // namespace holdfast::test
