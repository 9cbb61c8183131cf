#include "launch/huggingface/import/import_tokenizer.h"

#include <utility>

#include "core/error.h"
#include "launch/huggingface/import/folder_tokenizer.h"
#include "launch/huggingface/tokenizer_files.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "launch/tokenizers/tokenizer_spec.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr const char* kNameOne = "name one with --tokenizer";

std::string spec_of(const fs::path& folder) {
  const std::optional<std::string> spec = folder_tokenizer(folder);
  require(spec.has_value(),
          "{} has no tokenizer (tokenizer.json, vocab.txt, vocab.json with merges.txt, or a "
          "*.model): {}, {}; with none the model's tokens are ids",
          folder.string(), kNameOne, tokenizer_specs_allowed());
  return *spec;
}

bool is_of_bytes(const Tokenizer& tokenizer) {
  if (tokenizer.kind() != "bpe") return false;
  const Vocabulary vocabulary = vocabulary_of(tokenizer);
  return vocabulary.bpe.merges.empty() && vocabulary.bpe.is_plain() &&
         !vocabulary.bpe.add_prefix_space &&
         vocabulary.tokens == vocabulary_of(*make_tokenizer("byte")).tokens;
}

}  // namespace

ImportedTokenizer import_tokenizer(const fs::path& folder, const std::optional<std::string>& spec) {
  ImportedTokenizer result;
  result.spec = spec ? *spec : spec_of(folder);
  try {
    result.tokenizer = make_tokenizer(result.spec);
  } catch (const Error& error) {
    if (spec) throw;
    fail("the tokenizer of {} cannot be imported: {}; {}", folder.string(), error.what(), kNameOne);
  }
  if (!spec && is_of_bytes(*result.tokenizer)) return {"byte", make_tokenizer("byte")};
  return result;
}

ImportedTokenizer import_ids(const Json& config, int64_t vocab_size, SpecialTokenIds special) {
  for (const std::string_view name : kSpecialTokenNames) {
    const auto found = config.find(fmt::format("{}_token_id", name));
    // A config.json may have the default of its class, which a small vocabulary has not.
    if (found == config.end() || !found->is_number_integer()) continue;
    const auto id = found->get<int64_t>();
    if (0 <= id && id < vocab_size) special.emplace(name, static_cast<int32_t>(id));
  }
  return {std::string(kNoTokenizer), std::make_unique<IdTokenizer>(vocab_size, std::move(special))};
}

}  // namespace tessera
