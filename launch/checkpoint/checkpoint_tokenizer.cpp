#include "launch/checkpoint/checkpoint_tokenizer.h"

#include "core/error.h"

namespace tessera {

std::string tokenizer_attachment(const Tokenizer& tokenizer) {
  return to_text(tokenizer.to_json()) + "\n";
}

std::unique_ptr<Tokenizer> tokenizer_of(const Checkpoint& checkpoint) {
  const std::string path = checkpoint.path().string();
  require(checkpoint.has_attachment(kTokenizerAttachment),
          "checkpoint {} has no {}: it was saved without a tokenizer", path, kTokenizerAttachment);
  const std::string source = path + "/" + kTokenizerAttachment;
  return tokenizer_from_json(parse_json(checkpoint.attachment(kTokenizerAttachment), source),
                             source);
}

}  // namespace tessera
