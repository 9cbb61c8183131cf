#include "launch/tools/predict/predict.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/elementwise.h"
#include "launch/tools/predict/text_model.h"
#include "models/architecture.h"
#include "models/encoder.h"
#include "models/layers/attention/cross_attention.h"
#include "models/layers/attention/self_attention.h"
#include "models/model.h"
#include "models/transformer.h"

namespace tessera {
namespace {

/// In double, for display.
std::vector<double> softmax(std::span<const float> logits) {
  const float max = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p(logits.begin(), logits.end());
  for (double& x : p) x = std::exp(x - static_cast<double>(max));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

/// The probabilities, or the number, of a document's logits.
std::vector<double> values_of(std::span<const float> logits, ProblemType type) {
  if (type == ProblemType::single_label_classification) return softmax(logits);
  std::vector<double> values(logits.begin(), logits.end());
  if (type == ProblemType::multi_label_classification) {
    for (double& x : values) x = 1.0 / (1.0 + std::exp(-x));
  }
  return values;
}

std::vector<Candidate> likeliest(const std::vector<double>& probabilities, int64_t top) {
  std::vector<Candidate> all;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    all.push_back({static_cast<int32_t>(i), probabilities[i]});
  }
  const auto count = std::min(static_cast<std::ptrdiff_t>(top), std::ssize(all));
  std::partial_sort(
      all.begin(), all.begin() + count, all.end(), [](const Candidate& a, const Candidate& b) {
        return a.probability != b.probability ? a.probability > b.probability : a.token < b.token;
      });
  all.resize(static_cast<size_t>(count));
  return all;
}

/// The text with a target at each of its places.
Sample with_targets(const MaskedText& text) {
  Sample asked = text.sample;
  asked.targets.assign(asked.tokens.size(), kIgnoreTarget);
  int64_t first_allowed = 0;
  for (const int32_t place : text.places) {
    require(first_allowed <= place && place < std::ssize(asked.tokens),
            "position {} of a text of {} tokens cannot be filled: positions ascend, from 0 to {}",
            place, asked.tokens.size(), std::ssize(asked.tokens) - 1);
    first_allowed = place + 1;
    asked.targets[static_cast<size_t>(place)] = 0;  // any token
  }
  return asked;
}

/// The weights of the local heads of a layer in the last forward pass.
void compute_weights(const Model& model, const StepContext& ctx, AttentionOf of, int64_t layer,
                     const Tensor& weights) {
  switch (of) {
    case AttentionOf::stack:
      return model.transformer().attention(layer).weights(ctx, weights);
    case AttentionOf::encoder:
      return model.encoder()->weights(ctx, layer, weights);
    case AttentionOf::cross:
      return model.transformer().cross_attention(layer)->weights(ctx, weights);
  }
}

}  // namespace

std::vector<std::vector<std::vector<Candidate>>> fill_masks(TextModel& model,
                                                            std::span<const MaskedText> texts,
                                                            int64_t top, int64_t vocab_size) {
  require_objective(model.config(), Objective::masked_lm, "the checkpoint");
  std::vector<Sample> asked;
  for (const MaskedText& text : texts) asked.push_back(with_targets(text));
  const Tensor logits =
      model.run(asked, [](Model& any, const StepContext& ctx, const TokenBatch& batch) {
        return any.token_logits(ctx, batch);
      });
  std::vector<std::vector<std::vector<Candidate>>> found;
  int64_t m = 0;
  for (const MaskedText& text : texts) {
    auto& of_text = found.emplace_back();
    for (size_t i = 0; i < text.places.size(); ++i, ++m) {
      const auto row = logits.slice(m, m + 1).span<float>();
      // Embedding rows beyond the tokenizer's vocabulary are not candidates.
      const size_t known = std::min(row.size(), static_cast<size_t>(vocab_size));
      of_text.push_back(likeliest(softmax(row.first(known)), top));
    }
  }
  return found;
}

std::vector<std::vector<double>> predict_labels(TextModel& model, std::span<const Sample> texts) {
  require_objective(model.config(), Objective::classification, "the checkpoint");
  const Tensor logits =
      model.run(texts, [](Model& any, const StepContext& ctx, const TokenBatch& batch) {
        return any.label_logits(ctx, batch);
      });
  std::vector<std::vector<double>> found;
  for (int64_t i = 0; i < logits.dim(0); ++i) {
    found.push_back(values_of(logits.slice(i, i + 1).span<float>(), model.config().problem_type));
  }
  return found;
}

std::vector<std::vector<int32_t>> predict_word_labels(TextModel& model,
                                                      std::span<const Sample> texts) {
  require_objective(model.config(), Objective::token_classification, "the checkpoint");
  const Tensor logits =
      model.run(texts, [](Model& any, const StepContext& ctx, const TokenBatch& batch) {
        return any.label_logits(ctx, batch);
      });
  std::vector<std::vector<int32_t>> found;
  int64_t m = 0;
  for (const Sample& text : texts) {
    std::vector<int32_t>& labels = found.emplace_back();
    for (const int32_t target : text.targets) {
      if (target == kIgnoreTarget) continue;
      const auto row = logits.slice(m, m + 1).span<float>();
      labels.push_back(static_cast<int32_t>(std::ranges::max_element(row) - row.begin()));
      ++m;
    }
  }
  return found;
}

Tensor embed_texts(TextModel& model, std::span<const Sample> texts) {
  require_objective(model.config(), Objective::embedding, "the checkpoint");
  return model.run(texts, [](Model& any, const StepContext& ctx, const TokenBatch& batch) {
    return any.embed(ctx, batch);
  });
}

std::vector<std::vector<float>> attention_weights_of(QueriedModel& model, const Sample& text,
                                                     AttentionOf of,
                                                     const std::vector<int64_t>& layers) {
  Communicator& tp = model.tp();
  const auto heads_of = [&](int rank) { return local_heads(model.config(), tp.size(), rank); };
  const Tensor found =
      model.run(text, [&](Model& any, const StepContext& outer, const TokenBatch& batch) {
        const StepContext ctx = context_for(outer, batch);
        const int64_t n = batch.num_tokens(), sources = batch.source.num_tokens();
        const int64_t queries = of == AttentionOf::encoder ? sources : n;
        const int64_t keys = of == AttentionOf::stack ? n : sources;
        any.hidden_states(ctx, batch);
        // Every rank sends as many heads as the first, which has the most.
        const int64_t most = heads_of(0).size(), heads = heads_of(tp.rank()).size();
        const Tensor padded = ctx.arena.allocate({most, queries, keys}, DType::f32);
        fill(padded, 0.0);
        const Tensor local = padded.slice(0, heads).view({1, heads, queries, keys});
        const Tensor all =
            ctx.arena.allocate({std::ssize(layers), tp.size(), most, queries, keys}, DType::f32);
        for (int64_t i = 0; i < std::ssize(layers); ++i) {
          compute_weights(any, ctx, of, layers[static_cast<size_t>(i)], local);
          tp.all_gather(padded, all.slice(i, i + 1).view({tp.size(), most, queries, keys}));
        }
        return all;
      });
  const int64_t of_head = found.dim(3) * found.dim(4);
  std::vector<std::vector<float>> weights(layers.size());
  for (int64_t i = 0; i < found.dim(0); ++i) {
    const auto layer = found.slice(i, i + 1).span<float>();
    for (int rank = 0; rank < tp.size(); ++rank) {
      const auto begin = layer.begin() + rank * found.dim(2) * of_head;
      std::vector<float>& all = weights[static_cast<size_t>(i)];
      all.insert(all.end(), begin, begin + heads_of(rank).size() * of_head);
    }
  }
  return weights;
}

}  // namespace tessera
