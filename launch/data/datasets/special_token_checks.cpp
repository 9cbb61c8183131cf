#include "launch/data/datasets/special_token_checks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>

#include "core/error.h"

namespace tessera {
namespace {

struct Named {
  std::string_view name;
  std::string_view spelling;
  std::optional<int32_t> token;
};

std::array<Named, 5> all_special(const SpecialTokens& special) {
  return {{{"unknown", "[UNK]", special.unknown},
           {"start", "[CLS]", special.start},
           {"end", "[SEP]", special.end},
           {"padding", "[PAD]", special.padding},
           {"mask", "[MASK]", special.mask}}};
}

}  // namespace

std::vector<int32_t> special_ids(const VocabularyTraits& traits) {
  std::vector<int32_t> ids;
  for (const Named& special : all_special(traits.special)) {
    if (!special.token) continue;
    require(0 <= *special.token && *special.token < traits.vocab_size,
            "the special token {} ({}) is {}, which is not in the vocabulary of {} tokens",
            special.spelling, special.name, *special.token, traits.vocab_size);
    ids.push_back(*special.token);
  }
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

void require_special_tokens(const VocabularyTraits& traits,
                            std::initializer_list<std::string_view> names,
                            std::string_view purpose) {
  std::vector<std::string> missing;
  for (const Named& special : all_special(traits.special)) {
    if (!special.token && std::ranges::find(names, special.name) != names.end()) {
      missing.push_back(fmt::format("{} ({})", special.spelling, special.name));
    }
  }
  require(missing.empty(),
          "{} needs special tokens that the tokenizer does not have: {}; wordpiece tokenizers have "
          "them: choose such a data.tokenizer, and prepare the data with it",
          purpose, fmt::join(missing, ", "));
}

}  // namespace tessera
