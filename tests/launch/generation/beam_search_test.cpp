#include "launch/generation/beam_search.h"

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

Tokens search(const BeamOptions& options, const BeamTexts& among) {
  BeamSearch search(options, among);
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

Tokens search(const BeamOptions& options, int64_t max_tokens) {
  return search(options, {.end = kEnd, .max_tokens = max_tokens});
}

/// The best text by trying all.
Tokens exhaustive(const BeamOptions& options, const BeamTexts& among) {
  double best_score = -1e300;
  Tokens best;
  const std::function<void(const Tokens&, double)> visit = [&](const Tokens& text, double score) {
    const std::vector<float> logits = logits_of(text);
    double sum = 0.0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    for (int32_t token = 0; token < kVocab; ++token) {
      double change = static_cast<double>(logits[static_cast<size_t>(token)]) - std::log(sum);
      const bool is_seen =
          std::ranges::count(text, token) + std::ranges::count(among.prompt, token);
      if (is_seen) change *= options.repetition_penalty;  // the logarithm of a probability
      const double next = score + change;
      Tokens longer = text;
      if (token != kEnd) longer.push_back(token);
      const auto length = static_cast<int64_t>(text.size()) + 1;
      const bool ends = token == kEnd || (among.ends && among.ends(longer));
      if (!ends && length < among.max_tokens) {
        visit(longer, next);
        continue;
      }
      const double normalized =
          next / std::pow(static_cast<double>(length), options.length_penalty);
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
    const BeamOptions options = {.beams = 81, .length_penalty = penalty};
    found[penalty] = search(options, 5);
    EXPECT_EQ(found[penalty], exhaustive(options, {.end = kEnd, .max_tokens = 5}));
  }
  EXPECT_LT(found[0.0].size(), found[2.0].size());
}

TEST(BeamSearch, PenalizesRepetitionsAndStopsAtTexts) {
  const Tokens prompt = {2};
  // Ends a text that contains 0 1.
  const auto contains = [](std::span<const int32_t> text) {
    return !std::ranges::search(text, Tokens{0, 1}).empty();
  };
  std::map<double, Tokens> found;
  for (const double penalty : {0.5, 1.0, 1.3, 3.0}) {
    for (const bool stops : {false, true}) {
      SCOPED_TRACE(testing::PrintToString(std::pair(penalty, stops)));
      BeamTexts among = {.end = kEnd, .max_tokens = 5, .prompt = prompt};
      if (stops) among.ends = contains;
      const BeamOptions options = {.beams = 81, .repetition_penalty = penalty};
      const Tokens text = search(options, among);
      EXPECT_EQ(text, exhaustive(options, among));
      if (stops) {
        const size_t before_last = text.empty() ? 0 : text.size() - 1;
        EXPECT_FALSE(contains(std::span(text).first(before_last)));
      }
      found[penalty] = text;
    }
  }
  EXPECT_NE(found[0.5], found[3.0]);
  test::expect_error([] { check(BeamOptions{.repetition_penalty = 0.0}); },
                     {"--repetition-penalty is 0"});
}

TEST(BeamSearch, NeverChoosesTokensBeyondTheTokenizer) {
  for (const int32_t token : search({.beams = 3, .vocab_size = 2}, 6)) EXPECT_LT(token, 2);
}

TEST(BeamSearch, RefusesBadOptionsAndLogits) {
  test::expect_error([] { check(BeamOptions{.beams = 0}); }, {"--beams is 0"});
  test::expect_error([] { check(BeamOptions{.beams = 1, .length_penalty = NAN}); },
                     {"--length-penalty"});
  BeamSearch search({.beams = 1}, {.end = kEnd, .max_tokens = 4});
  const std::vector<float> logits(4, -INFINITY);
  test::expect_error([&] { search.advance(logits); }, {"not finite"});
}

}  // namespace
}  // namespace tessera
