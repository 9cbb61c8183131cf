#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

namespace tessera {

/// The error that every part of Tessera throws. The message names the operation, shows what
/// arrived, states the rule and says what to do. Its reader is the person who started the run.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A failure of this rank's device, which other ranks may not share.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// A failure that another rank caused. That rank reports the cause.
class PeerError : public Error {
 public:
  using Error::Error;
};

/// Throws Error with a message in fmt's syntax. One function for all messages: compiled once, and
/// a call costs its caller little code.
[[noreturn]] void throw_error(fmt::string_view message, fmt::format_args values);

/// Throws Error with a message in fmt's syntax.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> message, Args&&... args) {
  throw_error(message, fmt::make_format_args(args...));
}

/// Throws Error with a message in fmt's syntax unless `condition` holds.
template <typename... Args>
void require(bool condition, fmt::format_string<Args...> message, Args&&... args) {
  if (!condition) [[unlikely]] {
    throw_error(message, fmt::make_format_args(args...));
  }
}

/// Base of the fmt::formatter for a type with a to_string(). The text is made only if a check
/// fails. It takes no format: "{}".
template <typename T>
struct ToStringFormatter {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }

  template <typename Context>
  auto format(const T& value, Context& context) const {
    const auto& text = to_string(value);
    return std::copy(text.begin(), text.end(), context.out());
  }
};

}  // namespace tessera
