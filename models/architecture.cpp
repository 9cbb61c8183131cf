#include "models/architecture.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "core/error.h"

namespace tessera {
namespace {

// clang-format off
constexpr std::array<Architecture, 2> kArchitectures = {{
    // Radford et al., "Language Models are Unsupervised Multitask Learners", 2019.
    {.kind = ModelKind::gpt, .name = "gpt", .display_name = "GPT",
     .summary = "a decoder that predicts the next token",
     .pretraining = Objective::causal_lm, .norm = NormPosition::pre, .gelu = Gelu::tanh,
     .embedding_norm = false, .head_transform = false, .scaled_residual_init = true,
     .token_types = false, .classification = false, .special_tokens = false, .min_seq_length = 1},
    // Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", 2019. A sample has up
    // to three special tokens.
    {.kind = ModelKind::bert, .name = "bert", .display_name = "BERT",
     .summary = "an encoder that predicts masked tokens",
     .pretraining = Objective::masked_lm, .norm = NormPosition::post, .gelu = Gelu::erf,
     .embedding_norm = true, .head_transform = true, .scaled_residual_init = false,
     .token_types = true, .classification = true, .special_tokens = true, .min_seq_length = 8},
}};
// clang-format on

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

const Architecture& architecture_of(ModelKind kind) {
  const auto found = std::ranges::find(kArchitectures, kind, &Architecture::kind);
  require(found != kArchitectures.end(), "there is no architecture with the number {}",
          static_cast<int>(kind));
  return *found;
}

bool ModelTraits::hides(int64_t t, int64_t s) const {
  return (causal && s > t) || (attention_window > 0 && std::abs(t - s) >= attention_window);
}

MaskKinds ModelTraits::mask_kinds() const {
  MaskKinds kinds;
  kinds.causal = causal;
  kinds.window = attention_window > 0;
  kinds.documents = kinds.compact = true;
  return kinds;
}

ModelTraits traits_of(const ModelConfig& config) {
  const Architecture& architecture = architecture_of(config.kind);
  const bool classifies = config.head == Head::classification;
  ModelTraits traits;
  traits.name = architecture.display_name;
  traits.objective = classifies ? Objective::classification : architecture.pretraining;
  traits.causal = architecture.pretraining == Objective::causal_lm;
  traits.attention_window = config.attention_window;
  traits.sentence_pairs = config.next_sentence;
  traits.document_labels = config.next_sentence || classifies;
  traits.special_tokens = architecture.special_tokens;
  traits.head_transform = architecture.head_transform;
  return traits;
}

bool ModelConfig::pre_norm() const {
  const NormPosition position = norm == NormPosition::automatic ? architecture_of(kind).norm : norm;
  return position == NormPosition::pre;
}

}  // namespace tessera
