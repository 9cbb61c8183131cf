#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/error.h"
#include "launch/data/indexed/indexed_dataset_writer.h"
#include "tests/support/expect_error.h"
#include "tests/support/test_folder.h"

namespace tessera {

using test::TestFolder;

inline void write_file(const std::string& path, const std::string& bytes) {
  // ext4 flushes files that are truncated and rewritten immediately, which is slow.
  if (std::filesystem::is_regular_file(path)) std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The bytes of a value in memory.
template <typename T>
std::string bytes_of(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

/// Writes a dataset of these documents, with one sequence each.
inline void write_dataset(const std::string& prefix,
                          const std::vector<std::vector<int32_t>>& documents,
                          TokenType type = TokenType::u16) {
  IndexedDatasetWriter writer(prefix, {.type = type, .overwrite = true});
  for (const auto& document : documents) {
    writer.append(document);
    writer.end_document();
  }
  writer.finish();
}

using test::error_of;

/// Checks that the message contains all of these facts.
inline ::testing::AssertionResult names_all(const std::string& message,
                                            std::initializer_list<std::string> facts) {
  for (const std::string& fact : facts) {
    if (message.find(fact) == std::string::npos) {
      return ::testing::AssertionFailure() << "\"" << fact << "\" is not in: " << message;
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace tessera
