#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "core/error.h"

namespace tessera {

/// Why a program ends. Codes from 64 to 78 have their meaning in sysexits.h. What each one means
/// for a run, and whether to start it again, is in launch/support/exit_codes.cpp.
enum class ExitCode : uint8_t {
  finished = 0,
  failed = 1,
  usage = 64,
  data = 65,
  not_finite = 70,
  output = 74,
  hang = 75,
  configuration = 78,
  out_of_time = 98,
  stopped = 99,
};

/// An error that ends the program with this exit code.
class CodedError : public Error {
 public:
  CodedError(const std::string& message, ExitCode code) : Error(message), exit_code_(code) {}

  ExitCode exit_code() const { return exit_code_; }

 private:
  ExitCode exit_code_;
};

/// An error that every rank of a group throws with the same message, so that one rank can print it
/// and all can exit in order.
class SharedError : public CodedError {
 public:
  explicit SharedError(const std::string& message, ExitCode code = ExitCode::failed)
      : CodedError(message, code) {}
};

/// The exit code of a program that ends with this error.
ExitCode exit_code_of(const std::exception& error);

/// The message of an error, for the user: what() of Error, and words for the exceptions of
/// libraries, such as std::bad_alloc.
std::string message_of(const std::exception& error);

/// Runs `body` and returns its result. Its errors without an exit code of their own get `code`;
/// those of devices and peers, which say nothing about the body, do not.
template <typename Body>
decltype(auto) with_exit_code(ExitCode code, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const DeviceError&) {
    throw;
  } catch (const PeerError&) {
    throw;
  } catch (const SharedError& error) {
    if (error.exit_code() != ExitCode::failed) throw;
    throw SharedError(error.what(), code);
  } catch (const CodedError&) {
    throw;
  } catch (const Error& error) {
    throw CodedError(error.what(), code);
  }
}

}  // namespace tessera
