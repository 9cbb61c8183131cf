#include "launch/checkpoint/checkpoint_tokenizer.h"

#include "core/error.h"

namespace tessera {

std::string tokenizer_attachment(const Tokenizer& tokenizer) {
  return to_text(tokenizer.to_json()) + "\n";
}

std::unique_ptr<Tokenizer> tokenizer_of(const Checkpoint& checkpoint) {
  const std::string path = checkpoint.path().string();
  if (checkpoint.has_attachment(kTokenizerAttachment)) {
    const std::string source = path + "/" + kTokenizerAttachment;
    return tokenizer_from_json(parse_json(checkpoint.attachment(kTokenizerAttachment), source),
                               source);
  }
  // Earlier versions stored only a name, and had no tokenizer that needs more.
  const Json& extra = checkpoint.manifest().extra;
  require(extra.contains("tokenizer") && extra["tokenizer"].is_string(),
          "checkpoint {} does not say which tokenizer it was trained with", path);
  const std::string name = extra["tokenizer"].get<std::string>();
  require(name == "byte", "checkpoint {} has no {}, and its tokenizer is {}", path,
          kTokenizerAttachment, quote(name));
  return make_tokenizer(name);
}

}  // namespace tessera
