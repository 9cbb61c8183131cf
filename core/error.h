#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string_view>
#include <utility>

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

/// Throws Error with a message in fmt's syntax.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> message, Args&&... args) {
  throw Error(fmt::format(message, std::forward<Args>(args)...));
}

/// Base of the fmt::formatter for a type with a to_string(). The text is made only if a check
/// fails.
template <typename T>
struct ToStringFormatter : fmt::formatter<std::string_view> {
  template <typename Context>
  auto format(const T& value, Context& context) const {
    return fmt::formatter<std::string_view>::format(to_string(value), context);
  }
};

/// Throws Error with a message in fmt's syntax unless `condition` holds.
template <typename... Args>
void require(bool condition, fmt::format_string<Args...> message, Args&&... args) {
  if (!condition) [[unlikely]] {
    throw Error(fmt::format(message, std::forward<Args>(args)...));
  }
}

}  // namespace tessera
