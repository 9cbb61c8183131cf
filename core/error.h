#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string_view>
#include <utility>

namespace tessera {

/// What every part of Tessera throws. The message names the operation, shows what arrived, states
/// the rule and says what to do; it is meant to be read by the person who started the run.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What went wrong on this rank's device, and perhaps on no other's.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// What another rank's failure has caused on this one: that rank has the cause to tell.
class PeerError : public Error {
 public:
  using Error::Error;
};

/// Throws Error with a message in fmt's syntax.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> message, Args&&... args) {
  throw Error(fmt::format(message, std::forward<Args>(args)...));
}

/// Base of the fmt::formatter of what has a to_string(). A check that holds thus makes no text.
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
