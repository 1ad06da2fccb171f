#include "arguments/lock_id.hpp"

#include <fstream>
#include <iostream>

#include "arguments/values.hpp"
#include "terminal/text.hpp"

namespace holdfast::cli {
namespace {

std::string first_word(std::istream& input, const std::string& where) {
  std::string word;
  if (!(input >> std::ws)) throw UsageError(where + ": is empty; a lock id was expected there");
  constexpr std::size_t limit = 1000;  // the file may be any
  // The end of the input is below zero.
  for (int c = input.get(); c > ' ' && word.size() < limit; c = input.get()) {
    word += static_cast<char>(c);
  }
  return word;
}

}  // namespace

void LockIdArgument::add_to(Command command, const std::string& names) {
  command.add_option(names, id, "The lock id that `lock acquire` printed; - reads it from standard input");
  command
      .add_option("--id-file FILE", file,
                  "Read the lock id from this file: arguments are shown to all users by `ps`")
      .not_empty();
}

LockId LockIdArgument::read() const {
  if (id && file) throw UsageError("--id-file: excludes an ID on the command line");
  if (!given()) throw UsageError("ID is required: the lock id, - for standard input, or --id-file FILE");
  std::string text;
  if (file) {
    std::ifstream input(*file);
    if (!input) throw UsageError("--id-file: " + quote(*file) + " cannot be read");
    text = first_word(input, "--id-file");
  } else {
    text = *id == "-" ? first_word(std::cin, "standard input") : *id;
  }
  return LockId::parse(text).value_or_throw();
}

}  // namespace holdfast::cli
