#include "confirmation.hpp"

#include <strings.h>
#include <unistd.h>

#include <iostream>
#include <string>

namespace holdfast::cli {

bool can_ask() noexcept {
  return isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1;
}

bool confirm(std::string_view question) {
  std::cerr << question << " [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  return strcasecmp(answer.c_str(), "y") == 0 || strcasecmp(answer.c_str(), "yes") == 0;
}

}  // namespace holdfast::cli
