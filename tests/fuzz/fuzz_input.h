#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.h"

// What the fuzz targets share. Each defines LLVMFuzzerTestOneInput:
// https://llvm.org/docs/LibFuzzer.html

namespace tessera::fuzz {

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Runs `body`: an Error is an answer, anything else that is thrown is a bug.
template <typename Body>
void refuse_or_take(Body&& body) {
  try {
    body();
  } catch (const Error&) {
  }
}

/// Ends the program, as a crash does.
void expect(bool holds, const char* what);

/// A file of this name and these bytes, in a folder in memory that goes away with the process.
/// Replaces the one of that name.
std::string file_of(const std::string& name, std::string_view bytes);

/// The same, of `size` zero bytes that take no memory.
std::string empty_file_of(const std::string& name, size_t size);

}  // namespace tessera::fuzz
