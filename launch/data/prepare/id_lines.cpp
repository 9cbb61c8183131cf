#include "launch/data/prepare/id_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "launch/tokenizers/id_tokenizer.h"

namespace tessera {

TokenPart read_id_lines(const TextLines& lines, int64_t vocab_size) {
  TokenPart part;
  part.bytes = static_cast<int64_t>(lines.text.size());
  std::string_view rest = lines.text;
  for (int64_t number = lines.first_line; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::vector<int32_t> ids =
        parse_ids(line, vocab_size, fmt::format("{}:{}", lines.path, number));
    if (ids.empty()) continue;
    part.tokens.insert(part.tokens.end(), ids.begin(), ids.end());
    part.pieces.push_back({.counts = {.bytes = static_cast<int64_t>(line.size())},
                           .hash = hash128_of(std::as_bytes(std::span(ids)))});
    part.marks.push_back({part.tokens.size(), Mark::Ends::document});
  }
  return part;
}

}  // namespace tessera
