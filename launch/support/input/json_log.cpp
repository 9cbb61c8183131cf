#include "launch/support/input/json_log.h"

#include <array>
#include <fstream>
#include <string_view>
#include <utility>

#include "core/error.h"

namespace tessera {
namespace {

constexpr size_t kMostBytes = size_t{16} << 20;     // of a line
constexpr size_t kMostSkipped = size_t{256} << 20;  // of a longer one

Json object_in(const std::string& line) {
  if (!line.starts_with('{')) return nullptr;
  try {
    return parse_json(line, "the line");
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

void for_each_json_line(std::istream& lines, const VisitJsonLog& visit) {
  std::array<char, 1 << 16> piece;
  std::string line;
  bool fits = true;
  size_t skipped = 0;
  int64_t number = 0;
  const auto add = [&](std::string_view part) {
    fits = fits && line.size() + part.size() <= kMostBytes;
    fits ? void(line += part) : line.clear();
  };
  const auto end = [&](bool has_end) {
    visit({++number, line, object_in(line), has_end});
    line.clear();
    fits = true;
    skipped = 0;
  };
  while (lines.read(piece.data(), piece.size()) || lines.gcount() > 0) {
    std::string_view rest(piece.data(), static_cast<size_t>(lines.gcount()));
    for (size_t at = rest.find('\n'); at != rest.npos; at = rest.find('\n')) {
      add(rest.substr(0, at));
      end(/*has_end=*/true);
      rest.remove_prefix(at + 1);
    }
    add(rest);
    if (!fits && (skipped += rest.size()) > kMostSkipped) break;  // perhaps a hole of terabytes
  }
  if (!line.empty() || !fits) end(/*has_end=*/false);
}

bool for_each_json_line(const std::filesystem::path& path, const VisitJsonLog& visit) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  for_each_json_line(file, visit);
  return true;
}

}  // namespace tessera
