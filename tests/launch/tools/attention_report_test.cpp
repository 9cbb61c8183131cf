#include "launch/tools/attention/attention_report.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/launch/tools/attention_report_fixture.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

TEST(AttentionReport, JsonHoldsTokensMaskAndWeights) {
  const Json json = to_json(test::causal_report({"a", "b\xFF", "c"}, 2, 1));
  EXPECT_EQ(json["checkpoint"], "runs/tiny");
  EXPECT_EQ(json["model"], "a tiny GPT");
  EXPECT_EQ(json["mask"], "causal");
  const Json& sequence = json["sequences"][0];
  EXPECT_EQ(sequence["ids"], Json({100, 101, 102}));
  EXPECT_EQ(sequence["tokens"], Json({"a", "b\uFFFD", "c"}));
  EXPECT_EQ(sequence["hidden"], Json::parse("[[0, 1, 1], [0, 0, 1], [0, 0, 0]]"));
  ASSERT_EQ(sequence["heads"].size(), 2u);
  EXPECT_EQ(sequence["heads"][1]["layer"], 1);
  EXPECT_EQ(sequence["heads"][1]["head"], 0);
  EXPECT_EQ(sequence["heads"][1]["weights"].dump(),
            "[[1.0,0.0,0.0],[0.5,0.5,0.0],[0.333333,0.333333,0.333333]]");
}

TEST(AttentionReport, JsonNamesTextsAndAttentionsOfEncoderDecoder) {
  const Json json = to_json(test::cross_report({"a", "b"}, {"c", "d", "e"}));
  const Json& sequence = json["sequences"][0];
  EXPECT_EQ(sequence["source"]["tokens"], Json({"a", "b"}));
  EXPECT_EQ(sequence["target"]["ids"], Json({100, 101, 102}));
  EXPECT_FALSE(sequence.contains("tokens"));
  ASSERT_EQ(sequence["attentions"].size(), 1u);
  EXPECT_EQ(sequence["attentions"][0],
            Json::parse(R"({"attention": "cross", "queries": "target", "keys": "source",
                            "hidden": [[0, 0], [0, 0], [0, 0]],
                            "heads": [{"layer": 0, "head": 0,
                                       "weights": [[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]}]})"));
}

TEST(AttentionReport, IsReadFromItsJson) {
  AttentionReport windows = test::causal_report({"a", "b"}, 2, 1);
  AttentionMaps& maps = windows.sequences[0].attentions[0];
  maps.local_hidden = {0, 1, 1, 0};
  maps.heads[1].is_local = true;
  maps.heads[1].weights = {1.0f, 0.0f, 0.0f, 1.0f};
  for (const AttentionReport& report : {test::causal_report({"a", "b", "c"}, 2, 2), windows,
                                        test::cross_report({"a", "b"}, {"c", "d", "e"})}) {
    const Json json = to_json(report);
    EXPECT_EQ(to_json(attention_report_of(json, "x")), json);
  }
}

TEST(AttentionReport, SmallWeightsKeepTheirDigits) {
  AttentionReport report = test::causal_report({"a"}, 1, 1);
  report.sequences[0].attentions[0].heads[0].weights[0] = 1.2345678e-12f;
  const Json json = to_json(report);
  EXPECT_EQ(json["sequences"][0]["heads"][0]["weights"][0][0].get<double>(), 1.23457e-12);
}

TEST(AttentionReport, RejectsInconsistentReports) {
  const auto with = [](auto change) {
    AttentionReport report = test::causal_report({"a", "b"}, 1, 2);
    change(report.sequences[0].attentions[0]);
    return report;
  };
  test::expect_error([&] { check(with([](AttentionMaps& s) { s.hidden.pop_back(); })); },
                     {"attention report: sequence 0 has 2 × 2 tokens and a mask of 3 elements"});
  test::expect_error(
      [&] { check(with([](AttentionMaps& s) { s.heads[1].weights.pop_back(); })); },
      {"attention report: layer 0, head 1 of sequence 0 has 3 weights, but 2 × 2 tokens"});
  test::expect_error(
      [&] { check(with([](AttentionMaps& s) { s.heads[1].weights[2] = std::nanf(""); })); },
      {"the weight of key 0 for query 1 is nan, but must be from 0 to 1"});
  test::expect_error([&] { check(with([](AttentionMaps& s) { s.heads[0].weights[0] = 1.5f; })); },
                     {"the weight of key 0 for query 0 is 1.5"});
  test::expect_error(
      [&] { check(with([](AttentionMaps& s) { s.heads[1].weights[1] = 0.5f; })); },
      {"layer 0, head 1 of sequence 0: key 1 is hidden from query 0, but has a weight of 0.5"});
  test::expect_error(
      [&] { check(with([](AttentionMaps& s) { std::swap(s.heads[0], s.heads[1]); })); },
      {"layer 0, head 0 of sequence 0 comes after layer 0, head 1"});

  AttentionReport crossed = test::cross_report({"a", "b"}, {"c", "d", "e"});
  SequenceAttention& sequence = crossed.sequences[0];
  sequence.attentions[0].heads[0].weights[3] = 2.0f;
  test::expect_error([&] { check(crossed); },
                     {"layer 0, head 0 of attention cross of sequence 0: the weight of key 1 for "
                      "query 1 is 2"});
  sequence.attentions[0].keys = 1;
  test::expect_error([&] { check(crossed); },
                     {"attention cross of sequence 0 has 3 × 3 tokens and a mask of 6 elements"});
  sequence.attentions[0].keys = 2;
  test::expect_error([&] { check(crossed); }, {"of the texts 1 and 2, but there are 2"});
  sequence.texts[1].ids.pop_back();
  test::expect_error([&] { check(crossed); }, {"target of sequence 0 has 3 tokens and 2 ids"});
}

}  // namespace
}  // namespace tessera
