#include "launch/tokenizers/sentencepiece/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <exception>

#include "core/checked.h"
#include "core/error.h"
#include "launch/support/files/mapped_file.h"
#include "launch/support/text/base64.h"
#include "launch/support/text/printable_text.h"
#include "launch/tokenizers/sentencepiece/sentencepiece_log.h"
#include "launch/tokenizers/text/bert_text.h"
#include "launch/tokenizers/text/word_cache.h"

namespace tessera {
namespace {

using sentencepiece::SentencePieceProcessor;
using PieceType = SentencePieceModel::PieceType;

/// A rule expands one byte to up to 100, and the library uses 32-bit sizes.
constexpr size_t kMostBytes = size_t{1} << 24;

std::unique_ptr<SentencePieceProcessor> load(const SentencePieceModel& model,
                                             const std::string& source) {
  silence_sentencepiece();
  auto processor = std::make_unique<SentencePieceProcessor>();
  try {
    const auto status = processor->LoadFromSerializedProto(model.serialized());
    require(status.ok(), "{}: SentencePiece does not accept this model: {}", source,
            status.error_message());
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // thrown by the double array of the pieces
    fail("{}: SentencePiece does not accept this model: {}", source, error.what());
  }
  return processor;
}

/// Appends the tokens of a text, passed to the library as a whole.
void append(const SentencePieceProcessor& processor, std::string_view text,
            std::vector<int32_t>& tokens) {
  require(text.size() <= kMostBytes,
          "a text of {} bytes is too long to tokenize at once: the limit is {}", text.size(),
          kMostBytes);
  std::vector<int> ids;
  const auto status = count_invalid_utf8(text) == 0
                          ? processor.Encode(text, &ids)
                          : processor.Encode(replace_invalid_utf8(text), &ids);
  require(status.ok(), "SentencePiece cannot encode a text: {}", status.error_message());
  tokens.insert(tokens.end(), ids.begin(), ids.end());
}

bool has_space_mark(std::string_view text) {
  return text.find(kSpaceMark) != std::string_view::npos;
}

/// Returns whether the word normalizes to nothing but spaces, like U+00A0.
bool is_blank(const SentencePieceProcessor& processor, std::string_view word) {
  std::vector<int32_t> tokens;
  append(processor, word, tokens);
  return tokens.empty();
}

/// Calls `body` with the parts of `text` to encode separately. A part is a word, with one
/// exception: after a word that ends in a literal ▁, following spaces count, but trailing spaces do
/// not, so its part extends to the next word that is not blank.
template <typename Body>
void for_each_part(const SentencePieceProcessor& processor, std::string_view text,
                   const std::string& cuts, Body&& body) {
  const auto word_end = [&](size_t from) {
    return std::min(text.find_first_of(cuts, from), text.size());
  };
  for (size_t begin = 0; (begin = text.find_first_not_of(cuts, begin)) != std::string_view::npos;) {
    size_t end = word_end(begin);
    bool is_open = has_space_mark(text.substr(begin, end - begin));
    while (is_open) {
      const size_t next = text.find_first_not_of(cuts, end);
      if (next == std::string_view::npos) break;
      end = word_end(next);
      const std::string_view word = text.substr(next, end - next);
      is_open = has_space_mark(word) || is_blank(processor, word);
    }
    body(text.substr(begin, end - begin));
    begin = end;
  }
}

/// Encodes with `processor`, in parts if the model has cuts. Most words of a text are repeated.
void append_in_parts(const SentencePieceProcessor& processor, std::string_view text,
                     const std::string& cuts, std::vector<int32_t>& tokens) {
  if (cuts.empty()) {
    append(processor, text, tokens);
    return;
  }
  WordCache known(tokens);
  for_each_part(processor, text, cuts, [&](std::string_view part) {
    known.append(part, [&] { append(processor, part, tokens); });
  });
}

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(std::string bytes, const std::string& source)
    : model_(parse_sentencepiece_model(bytes, source)),
      bytes_(std::move(bytes)),
      processor_(load(model_, source)) {
  require(processor_->GetPieceSize() == static_cast<int>(model_.pieces.size()),
          "{}: SentencePiece reads {} pieces instead of {}", source, processor_->GetPieceSize(),
          model_.pieces.size());
  find_special();
}

SentencePieceTokenizer::~SentencePieceTokenizer() = default;

std::unique_ptr<SentencePieceTokenizer> SentencePieceTokenizer::read(const std::string& path) {
  const MappedFile file(path);
  require(file.size() <= kMaxSentencePieceBytes,
          "{}: has {} bytes, but a SentencePiece model has at most {}: is this one?", path,
          file.size(), kMaxSentencePieceBytes);
  return std::make_unique<SentencePieceTokenizer>(std::string(file.text()), path);
}

std::unique_ptr<SentencePieceTokenizer> SentencePieceTokenizer::from_json(
    const JsonObject& object) {
  const Json& model = object.at("model");
  require(model.is_string(), "{}: \"model\" must be a string, but is {}", object.where(),
          json_type(model));
  return std::make_unique<SentencePieceTokenizer>(
      from_base64(model.get_ref<const std::string&>(), object.where() + ": \"model\""),
      object.where());
}

void SentencePieceTokenizer::find_special() {
  const auto named = [&](std::initializer_list<std::string_view> names) {
    std::optional<int32_t> found;
    for (const std::string_view name : names) {
      if (!found) found = model_.find_symbol(name);
    }
    return found;
  };
  const auto given = [](int id) { return id < 0 ? std::nullopt : std::optional<int32_t>(id); };
  const auto or_else = [](std::optional<int32_t> first, std::optional<int32_t> second) {
    return first ? first : second;
  };
  end_ = given(processor_->eos_id());
  special_.unknown = given(processor_->unk_id());
  special_.start = or_else(named({"[CLS]"}), or_else(given(processor_->bos_id()), named({"<s>"})));
  special_.end = or_else(named({"[SEP]"}), or_else(end_, named({"</s>"})));
  special_.padding = or_else(given(processor_->pad_id()), named({"[PAD]", "<pad>"}));
  special_.mask = named({"[MASK]", "<mask>"});
  for (size_t i = 0; i < model_.pieces.size(); ++i) {
    const auto& piece = model_.pieces[i];
    const auto id = narrow<int32_t>(i);
    if (piece.type == PieceType::control || piece.type == PieceType::unknown ||
        id == special_.mask) {
      written_.emplace_back(piece.text, id);
    }
  }
}

std::vector<int32_t> SentencePieceTokenizer::encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  append_in_parts(*processor_, text, model_.cuts, tokens);
  return tokens;
}

std::vector<int32_t> SentencePieceTokenizer::encode_with_special(std::string_view text) const {
  std::vector<int32_t> tokens;
  bool after_special = false;
  const auto append_plain = [&](std::string_view plain) {
    if (after_special && has_prefix()) return append_continued(plain, tokens);
    append_in_parts(*processor_, plain, model_.cuts, tokens);
  };
  size_t plain_begin = 0;
  for (size_t at = 0; at < text.size();) {
    const std::pair<std::string, int32_t>* longest = nullptr;
    for (const auto& candidate : written_) {
      if (text.substr(at, candidate.first.size()) != candidate.first) continue;
      if (longest == nullptr || candidate.first.size() > longest->first.size()) {
        longest = &candidate;
      }
    }
    if (longest == nullptr) {
      ++at;
      continue;
    }
    append_plain(text.substr(plain_begin, at - plain_begin));
    tokens.push_back(longest->second);
    plain_begin = at += longest->first.size();
    after_special = true;
  }
  append_plain(text.substr(plain_begin));
  return tokens;
}

std::vector<int32_t> SentencePieceTokenizer::encode_part(std::string_view text,
                                                         const TextNeighbors& neighbors) const {
  if (!has_prefix() || !(neighbors.follows_text || neighbors.before)) return encode(text);
  const bool begins_word = neighbors.before || neighbors.after_space;
  if (begins_word && model_.normalization.remove_extra_whitespaces) return encode(text);
  std::vector<int32_t> tokens;
  append_continued(text, tokens);
  return tokens;
}

void SentencePieceTokenizer::append_continued(std::string_view text,
                                              std::vector<int32_t>& tokens) const {
  if (!model_.normalization.remove_extra_whitespaces) {
    return append(without_prefix(), text, tokens);
  }
  const size_t space = std::min(text.find_first_of(" \n\t\r"), text.size());
  if (space > 0) append(without_prefix(), text.substr(0, space), tokens);
  append_in_parts(*processor_, text.substr(space), model_.cuts, tokens);
}

bool SentencePieceTokenizer::is_llama() const {
  const SentencePieceModel::Normalization& how = model_.normalization;
  return model_.algorithm == SentencePieceModel::Algorithm::bpe && model_.byte_fallback &&
         has_prefix() && how.escape_whitespaces && !how.remove_extra_whitespaces &&
         how.charsmap.empty();
}

bool SentencePieceTokenizer::has_prefix() const {
  return model_.normalization.dummy_prefix && !model_.whitespace_as_suffix;
}

const SentencePieceTokenizer::Processor& SentencePieceTokenizer::without_prefix() const {
  std::call_once(is_loaded_, [&] {
    SentencePieceModel changed = model_;
    changed.normalization.dummy_prefix = false;
    without_prefix_ = load(changed, "the model without its dummy prefix");
  });
  return *without_prefix_;
}

size_t SentencePieceTokenizer::last_cut(std::string_view text) const {
  if (model_.cuts.empty()) return 0;
  size_t last_cut = 0;  // if the preceding words allow it
  for (size_t end = text.size(); end > 0;) {
    const size_t cut = text.find_last_of(model_.cuts, end - 1);
    if (cut == std::string_view::npos) break;
    if (last_cut == 0) last_cut = cut + 1;
    // The word before the cut, which ends where the spaces begin.
    const size_t last = text.find_last_not_of(model_.cuts, cut);
    if (last == std::string_view::npos) break;
    const size_t space = text.find_last_of(model_.cuts, last);
    const size_t first = space == std::string_view::npos ? 0 : space + 1;
    const std::string_view word = text.substr(first, last + 1 - first);
    if (has_space_mark(word)) {
      last_cut = 0;
    } else if (!is_blank(*processor_, word)) {
      break;
    }
    end = first;
  }
  return last_cut;
}

size_t SentencePieceTokenizer::forced_cut(std::string_view text) const {
  const size_t start = last_character_start(text);
  return start > 0 ? start : text.size();
}

int64_t SentencePieceTokenizer::count_invalid(std::string_view text) const {
  return count_invalid_utf8(text);
}

std::string SentencePieceTokenizer::decode(std::span<const int32_t> tokens) const {
  for (const int32_t token : tokens) require_token(token);
  std::string text;
  const auto status = processor_->Decode(std::vector<int>(tokens.begin(), tokens.end()), &text);
  require(status.ok(), "SentencePiece cannot decode tokens: {}", status.error_message());
  return text;
}

size_t SentencePieceTokenizer::settled_bytes(std::span<const int32_t> tokens) const {
  if (model_.denormalization) return 0;
  const auto is_open = [&](int32_t token) {
    require_token(token);
    const PieceType type = model_.pieces[static_cast<size_t>(token)].type;
    return type == PieceType::byte || type == PieceType::control;
  };
  while (!tokens.empty() && is_open(tokens.back())) tokens = tokens.first(tokens.size() - 1);
  return decode(tokens).size();
}

std::string SentencePieceTokenizer::token_text(int32_t token) const {
  require_token(token);
  return printable(model_.pieces[static_cast<size_t>(token)].text);
}

std::vector<bool> SentencePieceTokenizer::continues_word() const {
  std::vector<bool> continues;
  continues.reserve(model_.pieces.size());
  for (const auto& piece : model_.pieces) {
    const bool is_text = piece.type != PieceType::unknown && !piece.is_symbol();
    continues.push_back(is_text && piece.text.find(kSpaceMark) != 0);
  }
  return continues;
}

std::vector<int32_t> SentencePieceTokenizer::named_tokens() const {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < model_.pieces.size(); ++i) {
    const auto& piece = model_.pieces[i];
    const auto id = narrow<int32_t>(i);
    if (piece.is_symbol() || piece.type == PieceType::unknown || id == special_.mask) {
      tokens.push_back(id);
    }
  }
  return tokens;
}

Json SentencePieceTokenizer::to_json() const {
  return {{"kind", kind()}, {"model", to_base64(bytes_)}};
}

}  // namespace tessera
