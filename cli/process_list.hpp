#pragma once

namespace holdfast::cli {

/// Overwrites passwords of Redis URLs in the program's own arguments, which every user of the machine can
/// read (ps, /proc/PID/cmdline) for as long as the program runs. To be called first, after the arguments were
/// copied; in the moment before that they can be seen, so a password is better kept out of them.
void hide_passwords(int argc, char** argv) noexcept;

}  // namespace holdfast::cli
