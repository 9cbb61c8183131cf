#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "launch/support/text/json.h"
#include "tests/launch/data/test_files.h"
#include "tests/support/source_folder.h"

// Shared by the tests that read tests/parity/*_golden.json.

namespace tessera {

inline Json read_golden(const std::string& name) {
  const std::string path = test::source_folder() / "tests/parity" / name;
  return parse_json(read_file(path), path);
}

inline std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

inline void append_utf8(std::string& text, uint32_t code) {
  const auto byte = [&](uint32_t bits) { text.push_back(static_cast<char>(bits)); };
  if (code < 0x80) {
    byte(code);
    return;
  }
  if (code < 0x800) {
    byte(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    byte(0xE0 | code >> 12);
    byte(0x80 | (code >> 6 & 0x3F));
  } else {
    byte(0xF0 | code >> 18);
    byte(0x80 | (code >> 12 & 0x3F));
    byte(0x80 | (code >> 6 & 0x3F));
  }
  byte(0x80 | (code & 0x3F));
}

/// 64-bit FNV-1a.
struct Fnv {
  uint64_t value = 0xCBF29CE484222325;

  void add(std::string_view bytes) {
    for (const char c : bytes) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  }
};

}  // namespace tessera
