#include "survivors.hpp"

namespace holdfast::cli {

std::string describe(const Survivors& survivors) {
  if (survivors.unlisted) {
    return "processes of the command outside its process group cannot be found, because /proc cannot be read "
           "(not mounted, or too many open files); the lock is not released before they end, but its lease "
           "may expire";
  }
  const bool one = survivors.count == 1;
  std::string text = survivors.hidden > 0 ? "at least " : "";
  text += std::to_string(survivors.count);
  text += one ? " process of the command runs" : " processes of the command run";
  text += " as another user and cannot be ended";
  if (survivors.hidden > 0) {
    text +=
        one ? "; /proc is mounted with hidepid and hides it" : "; /proc is mounted with hidepid and hides ";
    if (!one) text += survivors.hidden == survivors.count ? "them" : "some of them";
  }
  text += "; the lock is not released, but once its lease expires the next holder may run beside ";
  text += one ? "it" : "them";
  return text;
}

}  // namespace holdfast::cli
