#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "serve/http/request.hpp"

namespace holdfast::serve {

/// Turns bytes into requests, one after another; a pure machine. Boost.Beast parses.
class RequestReader {
 public:
  RequestReader();
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  /// Parses bytes and returns how many were used. The others must come again, with more behind them, or are
  /// of the next request.
  std::size_t put(std::string_view bytes);
  /// The HTTP status that refuses what came: malformed, or beyond the limits. Nothing can be read after it.
  [[nodiscard]] std::optional<int> refusal() const noexcept { return refusal_; }
  [[nodiscard]] bool complete() const;
  /// Returns the complete request, and begins with the next.
  [[nodiscard]] Request take();

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
  std::optional<int> refusal_;
};

}  // namespace holdfast::serve
