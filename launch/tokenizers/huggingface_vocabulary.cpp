#include "launch/tokenizers/huggingface_vocabulary.h"

#include "core/error.h"
#include "launch/tokenizers/bpe/bpe_description.h"

namespace tessera {

std::vector<HuggingFaceToken> read_added_tokens(const Json& json, const std::string& source) {
  std::vector<HuggingFaceToken> tokens;
  if (part_of(json, "added_tokens").is_null()) return tokens;
  const std::string list = where_part(source, "added_tokens");
  for (const Json& item : JsonObject(json, source).list("added_tokens")) {
    HuggingFaceToken token;
    token.text = JsonObject(item, list).text("content");
    HuggingFacePart part(item, fmt::format("{}: {}", list, quote(token.text)));
    const auto flag = [&](const char* key, bool by_default) {
      part.must_be(key, {true, false});
      return part.object().has(key) ? part.object().flag(key) : by_default;
    };
    token.special = flag("special", true);
    token.strip_left = flag("lstrip", false);
    token.strip_right = flag("rstrip", false);
    token.single_word = flag("single_word", false);
    token.normalized = flag("normalized", !token.special);
    part.know({"id", "content"});
    part.refuse_others();
    token.id = part.object().at("id");
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::vector<std::string> all_tokens(const HuggingFacePart& model,
                                    const std::vector<HuggingFaceToken>& added,
                                    const std::string& source) {
  NumberedTokens tokens(source);
  tokens.add_all(model.object().object("vocab"));
  for (const HuggingFaceToken& token : added) tokens.add(token.text, token.id);
  return tokens.in_order();
}

}  // namespace tessera
