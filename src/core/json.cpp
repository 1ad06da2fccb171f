#include <holdfast/json.hpp>
#include <nlohmann/json.hpp>

#include "core/utf8.hpp"

namespace holdfast {
namespace {

/// Keeps nothing of a text but what is wrong with it.
class Complaint final : public nlohmann::json_sax<nlohmann::json> {
 public:
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) override {
    text_ = error.what();
    constexpr int number_overflow = 406;
    is_huge_number_ = error.id == number_overflow;
    return false;
  }

  [[nodiscard]] bool is_huge_number() const noexcept { return is_huge_number_; }

 private:
  bool is_huge_number_ = false;
  std::string text_;
};

}  // namespace

Result<Json> Json::parse(std::string_view text) {
  constexpr std::string_view space = " \t\r\n";
  const auto begin = text.find_first_not_of(space);
  if (begin == std::string_view::npos)
    return Error(ErrorCode::InvalidArgument, "this is no JSON: it is empty");
  const auto value = text.substr(begin, text.find_last_not_of(space) + 1 - begin);
  // The parser takes a NUL byte for the end and passes over a byte order mark; whoever gets the text would
  // not.
  if (const auto at = value.find('\0'); at != std::string_view::npos) {
    return Error(ErrorCode::InvalidArgument,
                 "this is no JSON: there is a NUL byte at position " + std::to_string(begin + at));
  }
  if (value.starts_with("\xEF\xBB\xBF")) {
    return Error(ErrorCode::InvalidArgument, "this is no JSON: it begins with a byte order mark");
  }
  Complaint complaint;
  if (nlohmann::json::sax_parse(value, &complaint)) return Json(std::string(value));
  if (complaint.is_huge_number()) {
    return Error(ErrorCode::InvalidArgument, "this JSON has a number that no double can hold",
                 complaint.text());
  }
  return Error(ErrorCode::InvalidArgument, "this is no JSON", complaint.text());
}

Result<Json> Json::string(std::string_view text) {
  if (!core::is_utf8(text)) return Error(ErrorCode::InvalidArgument, "the text is not valid UTF-8");
  return Json(nlohmann::json(text).dump());
}

}  // namespace holdfast
