#include "core/exit_code.h"

#include <fmt/format.h>

#include <filesystem>
#include <new>
#include <system_error>

namespace tessera {

ExitCode exit_code_of(const std::exception& error) {
  const auto* coded = dynamic_cast<const CodedError*>(&error);
  return coded == nullptr ? ExitCode::failed : coded->exit_code();
}

std::string message_of(const std::exception& error) {
  if (dynamic_cast<const Error*>(&error) != nullptr) return error.what();
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return "the host has too little memory: an allocation has failed";
  }
  if (const auto* files = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    return fmt::format("{}{}{}: {}", files->path1().string(), files->path2().empty() ? "" : ", ",
                       files->path2().string(), files->code().message());
  }
  if (const auto* system = dynamic_cast<const std::system_error*>(&error)) {
    return fmt::format("the system refuses: {}", system->code().message());
  }
  return fmt::format("{} (an error of a library; please report it)", error.what());
}

}  // namespace tessera
