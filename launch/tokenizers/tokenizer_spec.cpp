#include "launch/tokenizers/tokenizer_spec.h"

#include <array>

#include "core/error.h"

namespace tessera {
namespace {

struct KindInfo {
  TokenizerKind kind;
  std::string_view name;
  std::string_view file;  ///< what its path is; empty: no path
  bool has_spec = true;   ///< whether a specification can name it
};

constexpr std::array<KindInfo, 9> kKinds = {{
    {TokenizerKind::byte, "byte", ""},
    {TokenizerKind::wordpiece, "wordpiece", "vocab.txt"},
    {TokenizerKind::wordpiece_cased, "wordpiece-cased", "vocab.txt"},
    {TokenizerKind::bpe, "bpe", "folder"},
    {TokenizerKind::unigram, "unigram", "", false},
    {TokenizerKind::huggingface, "huggingface", "tokenizer.json"},
    {TokenizerKind::tessera, "tessera", "tokenizer.json"},
    {TokenizerKind::sentencepiece, "sentencepiece", "file.model"},
    {TokenizerKind::none, "none", ""},
}};

const KindInfo* find_kind(std::string_view name) {
  for (const KindInfo& info : kKinds) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

}  // namespace

std::string tokenizer_specs_allowed() {
  std::string text;
  for (const KindInfo& info : kKinds) {
    if (!info.has_spec) continue;
    if (!text.empty()) text += ", ";
    text += info.name;
    if (!info.file.empty()) text += fmt::format(":path/to/{}", info.file);
  }
  return "one of: " + text;
}

std::string_view to_string(TokenizerKind kind) {
  for (const KindInfo& info : kKinds) {
    if (info.kind == kind) return info.name;
  }
  return "?";
}

TokenizerKind tokenizer_kind(std::string_view name, std::string_view where) {
  const KindInfo* info = find_kind(name);
  require(info != nullptr, "{}: there is no tokenizer \"{}\": choose {}", where, name,
          tokenizer_specs_allowed());
  return info->kind;
}

bool is_tokenizer_spec(std::string_view text) {
  const size_t colon = text.find(':');
  const KindInfo* info = find_kind(text.substr(0, colon));
  if (info == nullptr || !info->has_spec) return false;
  return info->file.empty() ? colon == std::string_view::npos : colon < text.size() - 1;
}

TokenizerSpec parse_tokenizer_spec(std::string_view text) {
  const size_t colon = text.find(':');
  const bool has_path = colon != std::string_view::npos;
  const std::string_view name = text.substr(0, colon);
  const std::string_view path = has_path ? text.substr(colon + 1) : "";
  const KindInfo* info = find_kind(name);
  require(info != nullptr && info->has_spec, "there is no tokenizer \"{}\": choose {}", text,
          tokenizer_specs_allowed());
  require(info->file.empty() || !path.empty(),
          "tokenizer \"{}\" does not say which vocabulary: write {}:path/to/{}", text, name,
          info->file);
  require(!info->file.empty() || !has_path, "tokenizer \"{}\" accepts no file: write {}", text,
          name);
  return {info->kind, std::string(path)};
}

}  // namespace tessera
