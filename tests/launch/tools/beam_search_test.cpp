#include "launch/tools/generate/beam_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "core/error.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using Tokens = std::vector<int32_t>;
constexpr int32_t kEnd = 3;
constexpr int64_t kVocab = 4;

/// Logits that depend on the whole text, from a fixed mixing of its tokens.
std::vector<float> logits_of(const Tokens& text) {
  std::vector<float> logits;
  for (int32_t token = 0; token < kVocab; ++token) {
    double x = 1.0 + token;
    for (const int32_t t : text) x = std::fmod(x * 7.13 + 3.1 * t, 11.0);
    logits.push_back(static_cast<float>(std::sin(x) * 2.0));
  }
  return logits;
}

Tokens search(const BeamOptions& options, int64_t max_tokens) {
  BeamSearch search(options, kEnd, max_tokens);
  std::vector<Tokens> texts(static_cast<size_t>(options.beams));
  while (!search.done()) {
    std::vector<float> logits;
    for (const Tokens& text : texts) {
      const std::vector<float> row = logits_of(text);
      logits.insert(logits.end(), row.begin(), row.end());
    }
    search.advance(logits);
    std::vector<Tokens> next;
    for (size_t i = 0; i < texts.size(); ++i) {
      next.push_back(texts[static_cast<size_t>(search.parents()[i])]);
      next.back().push_back(search.last_tokens()[i]);
    }
    texts = next;
  }
  return search.best();
}

/// The best text by trying all.
Tokens exhaustive(double penalty, int64_t max_tokens) {
  double best_score = -1e300;
  Tokens best;
  const std::function<void(const Tokens&, double)> visit = [&](const Tokens& text, double score) {
    const std::vector<float> logits = logits_of(text);
    double sum = 0.0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    for (int32_t token = 0; token < kVocab; ++token) {
      const double next =
          score + static_cast<double>(logits[static_cast<size_t>(token)]) - std::log(sum);
      Tokens longer = text;
      if (token != kEnd) longer.push_back(token);
      const auto length = static_cast<int64_t>(text.size()) + 1;
      if (token != kEnd && length < max_tokens) {
        visit(longer, next);
        continue;
      }
      const double normalized = next / std::pow(static_cast<double>(length), penalty);
      if (normalized > best_score) {
        best_score = normalized;
        best = longer;
      }
    }
  };
  visit({}, 0.0);
  return best;
}

TEST(BeamSearch, OneBeamIsGreedy) {
  Tokens text;
  for (int i = 0; i < 8; ++i) {
    const std::vector<float> logits = logits_of(text);
    const auto token = static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
    if (token == kEnd) break;
    text.push_back(token);
  }
  EXPECT_EQ(search({.beams = 1}, 8), text);
}

TEST(BeamSearch, WideBeamFindsTheBestText) {
  std::map<double, Tokens> found;
  for (const double penalty : {0.0, 0.6, 1.0, 2.0}) {
    SCOPED_TRACE(penalty);
    // As many beams as there are beginnings, so none is lost.
    found[penalty] = search({.beams = 81, .length_penalty = penalty}, 5);
    EXPECT_EQ(found[penalty], exhaustive(penalty, 5));
  }
  EXPECT_LT(found[0.0].size(), found[2.0].size());
}

TEST(BeamSearch, NeverChoosesTokensBeyondTheTokenizer) {
  for (const int32_t token : search({.beams = 3, .vocab_size = 2}, 6)) EXPECT_LT(token, 2);
}

TEST(BeamSearch, RefusesBadOptionsAndLogits) {
  test::expect_error([] { check(BeamOptions{.beams = 0}); }, {"--beams is 0"});
  test::expect_error([] { check(BeamOptions{.beams = 1, .length_penalty = NAN}); },
                     {"--length-penalty"});
  BeamSearch search({.beams = 1}, kEnd, 4);
  const std::vector<float> logits(4, -INFINITY);
  test::expect_error([&] { search.advance(logits); }, {"not finite"});
}

}  // namespace
}  // namespace tessera
