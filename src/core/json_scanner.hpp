#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::core {

enum class JsonToken : std::uint8_t {
  null,
  boolean,
  number,
  string,
  name,  ///< of a member; its value follows
  object,
  array,
  end_object,
  end_array,
  end,   ///< of the text, after one value
  error  ///< the text is not JSON; stays
};

/// What limits are about. Counted without what a writer may add or leave out, spaces and needless escapes, so
/// that they do not depend on which library wrote the text.
struct JsonMeasure {
  std::size_t nesting = 0;         ///< most containers open at once
  std::size_t longest_string = 0;  ///< bytes of UTF-8, names of members included
  std::size_t compact_bytes = 0;
};

/// A value as it is written, and its measure.
struct JsonValue {
  std::string_view text;
  JsonMeasure measure;
};

/// Reads JSON (RFC 8259) token by token and checks it on the way, in one pass. All code of the library that
/// reads JSON text goes through here. Not recursive: an open container takes a bit. Refused though the
/// grammar has them: halves of surrogate pairs, which are not text, and numbers beyond the range of a double,
/// which most readers refuse. Duplicate names are the caller's.
class JsonScanner {
 public:
  /// The text outlives the scanner.
  explicit JsonScanner(std::string_view json) noexcept : json_(json) {}

  JsonToken next();
  [[nodiscard]] JsonToken token() const noexcept { return token_; }
  /// The token as written, a string with its quotes.
  [[nodiscard]] std::string_view literal() const noexcept { return json_.substr(start_, at_ - start_); }
  /// Of a string or a name: its text, without escapes.
  [[nodiscard]] std::string text() const;
  /// Whether the token is a string or a name with escapes.
  [[nodiscard]] bool has_escapes() const noexcept { return has_escapes_; }
  /// Of the token: its bytes in compact form.
  [[nodiscard]] std::size_t compact_bytes() const noexcept { return token_bytes_; }

  /// Reads one whole value. After an error it is what was read of it.
  JsonValue take_value();
  /// Reads what is left of a value whose first token is the current one.
  JsonValue finish_value();
  /// With an object as the current token: calls `member()` for each of its members, when its name is the
  /// current token. `member` reads the value.
  template <class Member>
  void for_each_member(Member member) {
    while (next() == JsonToken::name) member();
  }
  /// Whether the text was one value, all of which has been read.
  [[nodiscard]] bool at_end() { return next() == JsonToken::end; }

  // After an error.
  [[nodiscard]] const char* problem() const noexcept { return problem_; }
  /// In bytes, from the beginning of the text.
  [[nodiscard]] std::size_t position() const noexcept { return at_; }
  [[nodiscard]] bool is_huge_number() const noexcept { return is_huge_number_; }

 private:
  enum class Expect : std::uint8_t { value, value_or_end, name, name_or_end, colon, comma_or_end, end };

  JsonToken refuse(const char* problem);
  JsonToken finished(JsonToken token, std::size_t compact_bytes);
  JsonToken open(bool is_object);
  JsonToken close();
  JsonToken word(std::string_view word, JsonToken token);
  JsonToken number();
  JsonToken string(JsonToken token);
  /// Goes past this one between two tokens, and the space behind it.
  void take_separator() noexcept;
  void skip_space() noexcept;
  void skip_digits() noexcept;
  /// 0 at the end; no JSON has that byte.
  [[nodiscard]] char peek() const noexcept { return at_ < json_.size() ? json_[at_] : '\0'; }

  std::string_view json_;
  std::size_t start_ = 0, at_ = 0;
  JsonToken token_ = JsonToken::end;
  Expect expect_ = Expect::value;
  bool has_escapes_ = false, is_huge_number_ = false;
  std::size_t text_bytes_ = 0;     ///< of the last string
  std::size_t token_bytes_ = 0;    ///< of the token, compact
  std::size_t compact_bytes_ = 0;  ///< of all that was read
  std::vector<bool> open_;         ///< containers; whether each is an object
  const char* problem_ = "";
};

/// Of JSON; of anything else, what can be read of it.
[[nodiscard]] JsonMeasure measure(std::string_view json);

/// Appends a JSON string of this text, which is UTF-8, with those escapes that JSON requires and no others.
void append_json_string(std::string& json, std::string_view text);
[[nodiscard]] std::string json_string(std::string_view text);
/// The text of a JSON string.
[[nodiscard]] std::string unescaped(std::string_view json_string);
/// A number's nearest double; 0 if it is too small for any.
[[nodiscard]] double nearest_double(std::string_view number) noexcept;

}  // namespace holdfast::core
