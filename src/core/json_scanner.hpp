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

/// The sizes that limits apply to. Optional spaces and needless escapes are not counted, so a limit does not
/// depend on which library wrote the text.
struct JsonMeasure {
  std::size_t nesting = 0;         ///< most containers open at once
  std::size_t longest_string = 0;  ///< bytes of UTF-8, names of members included
  std::size_t compact_bytes = 0;
};

/// A value as written, and its measure.
struct JsonValue {
  std::string_view text;
  JsonMeasure measure;
};

/// Reads JSON (RFC 8259) token by token and checks it on the way, in one pass. All code of the library that
/// reads JSON text uses it. Not recursive: an open container costs one bit. It rejects two things that the
/// grammar allows: unpaired surrogates, which are not text, and numbers beyond the range of a double, which
/// most readers reject. Duplicate names are left to the caller.
class JsonScanner {
 public:
  /// The text outlives the scanner.
  explicit JsonScanner(std::string_view json) noexcept : json_(json) {}

  JsonToken next();
  [[nodiscard]] JsonToken token() const noexcept { return token_; }
  /// The token as written, a string with its quotes.
  [[nodiscard]] std::string_view literal() const noexcept { return json_.substr(start_, at_ - start_); }
  /// The text of a string or name, with escapes decoded.
  [[nodiscard]] std::string text() const;
  /// Whether the token is a string or a name with escapes.
  [[nodiscard]] bool has_escapes() const noexcept { return has_escapes_; }
  /// Bytes of the token in compact form.
  [[nodiscard]] std::size_t compact_bytes() const noexcept { return token_bytes_; }

  /// Reads one whole value. After an error it returns the part read so far.
  JsonValue take_value();
  /// Reads the rest of a value whose first token is the current one.
  JsonValue finish_value();
  /// Requires an object as the current token. Calls `member()` for each member, with its name as the current
  /// token. `member` reads the value.
  template <class Member>
  void for_each_member(Member member) {
    while (next() == JsonToken::name) member();
  }
  /// Whether the text was exactly one value, and all of it has been read.
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
  /// Skips the separator between two tokens, and the space after it.
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

/// The measure of a JSON text; of invalid JSON, the measure of the part before the error.
[[nodiscard]] JsonMeasure measure(std::string_view json);

/// Appends UTF-8 text as a JSON string, with only the escapes that JSON requires.
void append_json_string(std::string& json, std::string_view text);
[[nodiscard]] std::string json_string(std::string_view text);
/// The text of a JSON string.
[[nodiscard]] std::string unescaped(std::string_view json_string);
/// The double nearest to a number; 0 on underflow.
[[nodiscard]] double nearest_double(std::string_view number) noexcept;

}  // namespace holdfast::core
