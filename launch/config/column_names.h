#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>

namespace tessera {

/// The columns of files of texts, in the words of their formats (launch/data/datasets/).
inline constexpr std::array<std::string_view, 19> kColumnNames = {
    "text",     "text_pair",   "label",  "labels", "tokens",       "tags",       "anchor",
    "positive", "negative",    "source", "target", "prompt",       "completion", "messages",
    "tools",    "instruction", "input",  "output", "conversations"};

/// The names that some of these columns have in files: {"text": "sentence"}.
using ColumnNames = std::map<std::string, std::string, std::less<>>;

}  // namespace tessera
