#include "launch/tools/predict/predict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "launch/generation/continuation.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "parallel/process_grid.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/runs/training_world.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::kSmallVocabulary;
using test::small_run;
using test::SmallKind;

/// fp32 sums in a different order, once per layer, of logits of about 1.
constexpr double kTolerance = 1e-5;

class Predict : public testing::Test {
 protected:
  Predict() { test::write_small_data(folder_); }

  /// Trains for a few steps. Returns the checkpoint.
  fs::path train_checkpoint(SmallKind kind) const {
    return test::train_checkpoint(small_run(folder_, to_string(kind), kind));
  }

  /// Calls `use(model)` on each of `ranks` tensor ranks.
  template <typename Use>
  static void with_model(const fs::path& path, int ranks, Use&& use, DType precision = DType::f32) {
    run_thread_ranks(ranks, [&](Communicator& world) {
      Checkpoint checkpoint = Checkpoint::open(path);
      TextModel model(checkpoint, world, kCpu, 1, precision);
      use(model);
    });
  }

  test::TestFolder folder_;
};

/// [CLS] words [SEP], with [MASK] in two places.
Sample text() {
  Sample sample;
  sample.tokens = {2, 9, 4, 11, 30, 4, 52, 3};
  sample.targets.assign(sample.tokens.size(), -1);
  sample.document_lengths = {static_cast<int32_t>(sample.tokens.size())};
  return sample;
}

const std::vector<int32_t> kPlaces = {2, 5};

using Candidates = std::vector<std::vector<Candidate>>;

/// Of one text.
Candidates fill_masks(TextModel& model, const Sample& sample, const std::vector<int32_t>& places,
                      int64_t top, int64_t vocab_size) {
  const MaskedText text{sample, places};
  return tessera::fill_masks(model, {&text, 1}, top, vocab_size)[0];
}

double sum_of(const std::vector<Candidate>& candidates) {
  return std::accumulate(candidates.begin(), candidates.end(), 0.0,
                         [](double sum, const Candidate& c) { return sum + c.probability; });
}

TEST_F(Predict, FillsMasksAlikeOnEveryLayout) {
  const fs::path path = train_checkpoint(SmallKind::bert_pairs);
  std::vector<std::vector<Candidate>> whole;
  with_model(path, 1, [&](TextModel& model) {
    whole = fill_masks(model, text(), kPlaces, 1000, kSmallVocabulary);
  });
  ASSERT_EQ(whole.size(), kPlaces.size());
  for (const auto& candidates : whole) {
    ASSERT_EQ(candidates.size(), static_cast<size_t>(kSmallVocabulary));
    EXPECT_NEAR(sum_of(candidates), 1.0, 1e-12);
    EXPECT_TRUE(std::is_sorted(
        candidates.begin(), candidates.end(),
        [](const Candidate& a, const Candidate& b) { return a.probability > b.probability; }));
  }
  EXPECT_NE(whole[0][0].probability, whole[1][0].probability)
      << "both places have the same prediction";
  for (const int ranks : {1, 2, 4}) {
    with_model(path, ranks, [&](TextModel& model) {
      const auto found = fill_masks(model, text(), kPlaces, 3, kSmallVocabulary);
      for (size_t i = 0; i < kPlaces.size(); ++i) {
        ASSERT_EQ(found[i].size(), 3u);
        for (size_t n = 0; n < 3; ++n) {
          EXPECT_EQ(found[i][n].token, whole[i][n].token);
          EXPECT_NEAR(found[i][n].probability, whole[i][n].probability, kTolerance);
        }
      }
    });
  }
}

TEST_F(Predict, LongerTextDoesNotAffectNextShorterOne) {
  const fs::path path = train_checkpoint(SmallKind::bert_pairs);
  Sample longer = text();
  longer.tokens.insert(longer.tokens.end() - 1, 8, 20);
  longer.targets.assign(16, -1);
  longer.document_lengths = {16};
  with_model(path, 2, [&](TextModel& model) {
    const auto alone = fill_masks(model, text(), kPlaces, 1, kSmallVocabulary);
    const auto other = fill_masks(model, longer, kPlaces, 1, kSmallVocabulary);
    const auto again = fill_masks(model, text(), kPlaces, 1, kSmallVocabulary);
    EXPECT_EQ(again[0][0].probability, alone[0][0].probability);
    EXPECT_NE(other[0][0].probability, alone[0][0].probability);
  });
}

TEST_F(Predict, ExcludesTokensOutsideTokenizer) {
  with_model(train_checkpoint(SmallKind::bert_pairs), 2, [](TextModel& model) {
    const auto found = fill_masks(model, text(), kPlaces, 1000, 10);
    ASSERT_EQ(found[0].size(), 10u);
    EXPECT_NEAR(sum_of(found[0]), 1.0, 1e-12);
    for (const Candidate& candidate : found[0]) EXPECT_LT(candidate.token, 10);
  });
}

TEST_F(Predict, PredictsSameLabelsOnEveryLayout) {
  const fs::path path = train_checkpoint(SmallKind::classifier);
  std::vector<double> whole;
  with_model(path, 1, [&](TextModel& model) { whole = predict_labels(model, {{text()}})[0]; });
  ASSERT_EQ(whole.size(), 3u);
  EXPECT_NEAR(std::accumulate(whole.begin(), whole.end(), 0.0), 1.0, 1e-12);
  for (const int ranks : {2, 4}) {
    with_model(path, ranks, [&](TextModel& model) {
      const std::vector<double> found = predict_labels(model, {{text()}})[0];
      for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(found[i], whole[i], kTolerance);
    });
  }
}

// Probabilities and vectors of about 0.1 differ by some of bf16's steps of 2^-9.
TEST_F(Predict, AnswersAlmostAlikeInBf16) {
  const auto answers = [](TextModel& model, SmallKind kind) {
    if (kind == SmallKind::classifier) return predict_labels(model, {{text()}})[0];
    if (kind == SmallKind::embeddings) {
      const auto vector = embed_texts(model, {{text()}}).span<float>();
      return std::vector<double>(vector.begin(), vector.end());
    }
    std::vector<double> of_token(static_cast<size_t>(kSmallVocabulary));
    const Candidates found = fill_masks(model, text(), kPlaces, 1000, kSmallVocabulary);
    for (const Candidate& candidate : found[0]) {
      of_token[static_cast<size_t>(candidate.token)] = candidate.probability;
    }
    return of_token;
  };
  for (const SmallKind kind :
       {SmallKind::bert_pairs, SmallKind::classifier, SmallKind::embeddings}) {
    SCOPED_TRACE(to_string(kind));
    const fs::path path = train_checkpoint(kind);
    std::vector<double> whole;
    with_model(path, 1, [&](TextModel& model) { whole = answers(model, kind); });
    for (const int ranks : {1, 2}) {
      with_model(
          path, ranks,
          [&](TextModel& model) {
            const std::vector<double> found = answers(model, kind);
            ASSERT_EQ(found.size(), whole.size());
            EXPECT_NE(found, whole);
            for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(found[i], whole[i], 0.02);
          },
          DType::bf16);
    }
  }
}

TEST_F(Predict, ContinuesTextsAlikeAloneTogetherAndSharded) {
  using Tokens = std::vector<int32_t>;
  const IdTokenizer tokenizer(kSmallVocabulary);
  const TextEnds ends = {{}, 25};
  const SamplingOptions ways[] = {{.temperature = 0.0},
                                  {.repetition_penalty = 1.3, .temperature = 0.0},
                                  {.temperature = 0.9, .top_k = 20, .seed = 8}};
  for (const SmallKind kind : {SmallKind::gpt, SmallKind::gpt_documents, SmallKind::gpt_packed,
                               SmallKind::prefix_lm, SmallKind::planes, SmallKind::qwen3}) {
    SCOPED_TRACE(to_string(kind));
    const fs::path path = train_checkpoint(kind);
    const ModelConfig config = small_run(folder_, to_string(kind), kind).model;
    // In any order; the longest is longer than the context.
    std::vector<Tokens> prompts;
    for (const int64_t more : {int64_t{2}, int64_t{0}, int64_t{5}, config.seq_length, int64_t{3}}) {
      Tokens& prompt = prompts.emplace_back();
      for (int64_t i = 0; i < std::max<int64_t>(config.attention_prefix, 1) + more; ++i) {
        prompt.push_back(static_cast<int32_t>((7 * more + 3 * i) % kSmallVocabulary));
      }
    }
    for (const SamplingOptions& way : ways) {
      const auto continued = [&](TextModel& model, size_t first, size_t count) {
        std::vector<SampledText> texts;
        for (size_t i = first; i < first + count; ++i) {
          texts.emplace_back(way, tokenizer, ends, prompts[i], static_cast<int64_t>(i));
        }
        int64_t calls = 0;
        continue_texts(model, texts, [&](SampledText&) { ++calls; });
        EXPECT_EQ(calls, 25 * std::ssize(texts));
        std::vector<Tokens> found;
        for (const SampledText& text : texts) {
          found.emplace_back(text.new_tokens().begin(), text.new_tokens().end());
        }
        return found;
      };
      std::vector<Tokens> alone;
      with_model(path, 1, [&](TextModel& model) {
        for (size_t i = 0; i < prompts.size(); ++i) alone.push_back(continued(model, i, 1)[0]);
      });
      for (const int ranks : {1, 2}) {
        with_model(path, ranks, [&](TextModel& model) {
          EXPECT_EQ(continued(model, 0, prompts.size()), alone) << ranks << " tensor ranks";
        });
      }
    }
  }
}

TEST_F(Predict, RejectsUnsupportedModelsAndTexts) {
  const auto fill = [](TextModel& model) {
    fill_masks(model, text(), kPlaces, 1, kSmallVocabulary);
  };
  with_model(train_checkpoint(SmallKind::gpt), 1, [&](TextModel& model) {
    expect_error([&] { fill(model); }, {"is a GPT-2 that this command cannot use"});
    expect_error([&] { predict_labels(model, {{text()}}); }, {"that this command cannot use"});
  });
  with_model(train_checkpoint(SmallKind::classifier), 1, [&](TextModel& model) {
    expect_error([&] { fill(model); }, {"it classifies texts, with tessera classify"});
  });
  with_model(train_checkpoint(SmallKind::bert_packed), 1, [&](TextModel& model) {
    expect_error([&] { predict_labels(model, {{text()}}); }, {"that this command cannot use"});
    for (const std::vector<int32_t>& wrong :
         std::vector<std::vector<int32_t>>{{5, 2}, {2, 2}, {-1}, {8}}) {
      expect_error([&] { fill_masks(model, text(), wrong, 1, kSmallVocabulary); },
                   {"of a text of 8 tokens cannot be filled: positions ascend, from 0 to 7"});
    }
    Sample longer = text();
    longer.tokens.assign(17, 9);
    longer.targets.assign(17, -1);
    longer.document_lengths = {17};
    expect_error([&] { fill_masks(model, longer, kPlaces, 1, kSmallVocabulary); },
                 {"the text has 17 tokens", "at most 16"});
  });
}

/// A pair of texts: what a decoder reads after 1, and its source, which ends with 3.
Sample source_and_target() {
  Sample sample;
  sample.tokens = {1, 12, 40, 7, 25};
  sample.targets = {12, 40, 7, 25, 3};
  sample.document_lengths = {5};
  sample.source_tokens = {30, 8, 51, 16, 44, 9, 3};
  sample.source_lengths = {7};
  return sample;
}

// With 3 heads, 2 tensor ranks have unequal numbers of them, and one of 4 has none.
TEST_F(Predict, AttentionOfBothStacksIsAlikeOnEveryLayout) {
  const fs::path path = train_checkpoint(SmallKind::translation);
  struct Case {
    AttentionOf of;
    int64_t layers, queries, keys;
  };
  for (const Case& c : {Case{AttentionOf::encoder, 2, 7, 7}, Case{AttentionOf::stack, 1, 5, 5},
                        Case{AttentionOf::cross, 1, 5, 7}}) {
    std::vector<int64_t> layers(static_cast<size_t>(c.layers));
    std::iota(layers.begin(), layers.end(), 0);
    std::vector<std::vector<float>> whole;
    with_model(path, 1, [&](TextModel& model) {
      whole = attention_weights_of(model, source_and_target(), c.of, layers);
    });
    ASSERT_EQ(std::ssize(whole), c.layers);
    for (const std::vector<float>& layer : whole) {
      ASSERT_EQ(std::ssize(layer), 3 * c.queries * c.keys);
      for (auto row = layer.begin(); row != layer.end(); row += c.keys) {
        EXPECT_NEAR(std::accumulate(row, row + c.keys, 0.0), 1.0, 1e-5);
      }
    }
    for (const int ranks : {2, 4}) {
      with_model(path, ranks, [&](TextModel& model) {
        const auto split = attention_weights_of(model, source_and_target(), c.of, layers);
        ASSERT_EQ(split.size(), whole.size());
        for (size_t layer = 0; layer < whole.size(); ++layer) {
          ASSERT_EQ(split[layer].size(), whole[layer].size());
          for (size_t i = 0; i < whole[layer].size(); ++i) {
            ASSERT_NEAR(split[layer][i], whole[layer][i], kTolerance) << i;
          }
        }
      });
    }
  }
}

// A row of cross-attention is a token of the target, which knows no later one.
TEST_F(Predict, CrossAttentionHasARowForEachTargetToken) {
  const fs::path path = train_checkpoint(SmallKind::translation);
  with_model(path, 1, [&](TextModel& model) {
    const auto weights = [&](const Sample& sample) {
      return attention_weights_of(model, sample, AttentionOf::cross, {0})[0];
    };
    const auto before = weights(source_and_target());
    Sample changed = source_and_target();
    changed.tokens[3] = 33;
    const auto after = weights(changed);
    for (size_t i = 0; i < before.size(); ++i) {
      const size_t row = i / 7 % 5;
      if (row < 3) {
        ASSERT_NEAR(after[i], before[i], kTolerance) << i;
      } else if (row == 3) {
        EXPECT_NE(after[i], before[i]) << i;
      }
    }
  });
}

}  // namespace
}  // namespace tessera
