#include <fmt/format.h>

#include <algorithm>

#include "launch/checkpoint/format/safetensors.h"
#include "launch/support/text/human_text.h"
#include "launch/support/text/printable_text.h"
#include "launch/support/text/table.h"
#include "launch/tools/inspect/inspect.h"

namespace tessera {

std::string describe_safetensors(const std::filesystem::path& path) {
  const SafetensorsFile file(path, ForeignDTypes::keep);
  std::string text =
      fmt::format("{}: a safetensors file of {} tensors, {}\n", path.string(),
                  file.entries().size() + file.foreign_entries().size(), human_bytes(file.size()));
  std::vector<std::vector<std::string>> rows = {{"tensor", "shape", "dtype", "elements"}};
  for (const auto& [name, entry] : file.entries()) {
    rows.push_back({printable(name), to_string(entry.shape), safetensors_name(entry.dtype),
                    grouped(entry.shape.numel())});
  }
  for (const auto& [name, entry] : file.foreign_entries()) {
    rows.push_back({printable(name), to_string(entry.shape), printable(entry.dtype), ""});
  }
  std::sort(rows.begin() + 1, rows.end(),
            [](const auto& a, const auto& b) { return in_natural_order(a.front(), b.front()); });
  return text + table(rows, {3});
}

}  // namespace tessera
