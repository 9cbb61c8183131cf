#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

using Json = nlohmann::json;

class CliAttention : public SmallRun {
 protected:
  Outcome run_attention(int ranks, const Arguments& more) const {
    Arguments arguments = {"attention", path("run").string(), "--output", path("look").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(tessera(ranks, arguments));
  }

  Json report(int ranks, const Arguments& more) const {
    expect_success(run_attention(ranks, more));
    return Json::parse(read_text(path("look.json")));
  }
};

/// Expects that the weights of each query add up to 1, and that hidden positions have weight 0.
void expect_valid_weights(const Json& sequence) {
  for (const Json& head : sequence["heads"]) {
    for (size_t t = 0; t < sequence["tokens"].size(); ++t) {
      double sum = 0.0;
      for (size_t s = 0; s < sequence["tokens"].size(); ++s) {
        const double weight = head["weights"][t][s];
        EXPECT_TRUE(weight == 0.0 || sequence["hidden"][t][s] == 0) << t << ", " << s;
        sum += weight;
      }
      EXPECT_NEAR(sum, 1.0, 1e-5) << "query " << t;
    }
  }
}

TEST_F(CliAttention, WritesAllHeadsOnAnyLayout) {
  expect_success(run_train(kAlone, "run"));
  const Json alone = report(kAlone, {"--text", "3 times 4"});
  const Json& sequence = alone["sequences"][0];
  EXPECT_EQ(sequence["tokens"].size(), 9u) << "bytes";
  EXPECT_EQ(sequence["tokens"][0], "3");
  EXPECT_EQ(sequence["hidden"][0], Json({0, 1, 1, 1, 1, 1, 1, 1, 1})) << "causal";
  EXPECT_EQ(sequence["hidden"][8], Json({0, 0, 0, 0, 0, 0, 0, 0, 0}));
  expect_valid_weights(sequence);
  const std::string page = read_text(path("look.html"));
  EXPECT_NE(page.find("<figcaption>layer 1, head 3<"), std::string::npos);

  // The split over ranks changes only the rounding.
  const Json split = report(2, {"--text", "3 times 4"});
  ASSERT_EQ(split["sequences"][0]["heads"].size(), sequence["heads"].size());
  for (size_t i = 0; i < sequence["heads"].size(); ++i) {
    const auto expected = sequence["heads"][i]["weights"].get<std::vector<std::vector<double>>>();
    const auto actual =
        split["sequences"][0]["heads"][i]["weights"].get<std::vector<std::vector<double>>>();
    for (size_t t = 0; t < expected.size(); ++t) {
      for (size_t s = 0; s < expected.size(); ++s) {
        EXPECT_NEAR(actual[t][s], expected[t][s], 1e-5);
      }
    }
  }
}

TEST_F(CliAttention, PackedTextsMatchSeparateTexts) {
  expect_success(run_train(kAlone, "run", {"train.steps=3"}));
  const Json apart = report(kAlone, {"--text", "ab", "--text", "cde"});
  const Json packed = report(kAlone, {"--text", "ab", "--text", "cde", "--pack"});
  ASSERT_EQ(apart["sequences"].size(), 2u);
  ASSERT_EQ(packed["sequences"].size(), 1u);
  const Json& row = packed["sequences"][0];
  expect_valid_weights(row);
  EXPECT_EQ(row["hidden"], Json::parse("[[0, 1, 1, 1, 1], [0, 0, 1, 1, 1], [1, 1, 0, 1, 1], "
                                       "[1, 1, 0, 0, 1], [1, 1, 0, 0, 0]]"));
  for (size_t i = 0; i < row["heads"].size(); ++i) {
    const Json& second = apart["sequences"][1]["heads"][i]["weights"];
    for (size_t t = 0; t < 3; ++t) {
      for (size_t s = 0; s < 3; ++s) {
        EXPECT_EQ(row["heads"][i]["weights"][2 + t][2 + s], second[t][s]);
      }
    }
  }
}

TEST_F(CliAttention, ShowsRequestedLayersAndHeads) {
  expect_success(run_train(kAlone, "run", {"train.steps=3"}));
  const Json chosen = report(2, {"--text", "a b", "--layer", "1", "--head", "3", "--head", "0"});
  const Json& heads = chosen["sequences"][0]["heads"];
  ASSERT_EQ(heads.size(), 2u);
  EXPECT_EQ(heads[0]["layer"], 1);
  EXPECT_EQ(heads[0]["head"], 0);
  EXPECT_EQ(heads[1]["head"], 3);
}

TEST_F(CliAttention, RejectsInvalidOptions) {
  expect_success(run_train(kAlone, "run", {"train.steps=3"}));
  for (const int ranks : {kAlone, 2}) {
    expect_refused(run_attention(ranks, {"--text", "a", "--layer", "2"}),
                   {"--layer is 2, but the model has layers 0 to 1"});
    expect_refused(run_attention(ranks, {"--text", "a", "--head", "4"}),
                   {"--head is 4, but the model has heads 0 to 3"});
    expect_refused(run_attention(ranks, {"--text", ""}), {"the text \"\" has no token"});
    expect_refused(run_attention(ranks, {"--text", std::string(100, 'a')}),
                   {"the text", "100", "16"});
    expect_refused(run_attention(ranks, {}), {"--text"});
  }
  EXPECT_FALSE(std::filesystem::exists(path("look.html")));
}

}  // namespace
}  // namespace tessera::test
