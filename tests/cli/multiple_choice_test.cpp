#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "launch/support/text/json.h"
#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

constexpr const char* kHellaSwag =
    R"({"ind": 1, "ctx": "3 times 3", "endings": ["is 9", "is 3", "of"], "label": "0"})"
    "\n"
    R"({"ind": 2, "ctx": "and that", "endings": ["is all.", "was it", "is no"], "label": 0})"
    "\n"
    R"({"ind": 3, "ctx": "8 times 1 is 8, and", "endings": ["xyz", "that is"], "label": 1})"
    "\n";
constexpr const char* kPlain =
    R"({"question": "1 times 1 is", "choices": ["1,", "7,"], "answer": 0})"
    "\n";

class CliMultipleChoice : public SmallRun {
 protected:
  CliMultipleChoice() {
    write_text(path("swag.jsonl"), kHellaSwag);
    write_text(path("plain.jsonl"), kPlain);
  }

  Arguments files() const {
    return {"--multiple-choice", path("swag.jsonl").string(), "--multiple-choice",
            path("plain.jsonl").string()};
  }

  Outcome run_eval(int ranks, const Arguments& more) const {
    Arguments arguments = {"eval", path("run").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(tessera(ranks, arguments));
  }

  Json report(int ranks, const Arguments& more) const {
    Arguments arguments = files();
    arguments.emplace_back("--json");
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run_eval(ranks, arguments);
    expect_success(outcome);
    return parse_json(outcome.output, "eval --json");
  }

  /// The lines of a .jsonl file.
  std::vector<Json> lines(const std::string& name) const {
    std::vector<Json> all;
    std::istringstream text(read_text(path(name)));
    for (std::string line; std::getline(text, line);) all.push_back(parse_json(line, name));
    return all;
  }

  std::string set() const {
    return "eval.multiple_choice=[" + path("swag.jsonl").string() + ", " +
           path("plain.jsonl").string() + "]";
  }
};

TEST_F(CliMultipleChoice, AnswersAlikeInTrainingAndOnEveryLayout) {
  expect_success(run_train(
      2, "run", {"data.eval_fraction=0.2", "eval.interval=20", "log.tensorboard=true", set()}));
  const Json alone = report(kAlone, {"--log-samples", path("alone.jsonl").string()});
  const Json four = report(
      4, {"--tensor", "2", "--micro-batch", "1", "--log-samples", path("four.jsonl").string()});
  ASSERT_EQ(alone["multiple_choice"].size(), 2u);
  EXPECT_EQ(alone["multiple_choice"], four["multiple_choice"]);
  EXPECT_EQ(alone["multiple_choice"][0]["name"], "swag");
  EXPECT_EQ(alone["multiple_choice"][0]["questions"], 3);
  EXPECT_EQ(alone["multiple_choice"][0]["choices"], 8);

  const std::vector<Json> one = lines("alone.jsonl"), more = lines("four.jsonl");
  ASSERT_EQ(one.size(), 4u);
  ASSERT_EQ(more.size(), 4u);
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i]["name"], i < 3 ? "swag" : "plain");
    EXPECT_EQ(one[i]["line"], i < 3 ? i + 1 : 1);
    for (size_t choice = 0; choice < one[i]["log_likelihoods"].size(); ++choice) {
      const auto expected = one[i]["log_likelihoods"][choice].get<double>();
      // See tests/equivalence/layouts_test.cpp.
      EXPECT_NEAR(more[i]["log_likelihoods"][choice].get<double>(), expected,
                  2e-5 * std::abs(expected));
    }
  }

  Json logged;
  for (const Json& line : lines("run/metrics.jsonl")) {
    if (line.contains("eval_loss")) logged = line;
  }
  const Json& swag = alone["multiple_choice"][0];
  EXPECT_EQ(logged["eval_swag_acc"], swag["acc"]);
  EXPECT_EQ(logged["eval_swag_acc_norm"], swag["acc_norm"]);
  EXPECT_EQ(logged["eval_swag_acc_stderr"], swag["acc_stderr"]);
  EXPECT_EQ(logged["eval_plain_acc"], alone["multiple_choice"][1]["acc"]);

  const Outcome text = run_eval(kAlone, files());
  expect_success(text);
  EXPECT_EQ(text.count("4 questions with 10 choices"), 1u) << text.output;
  EXPECT_EQ(text.count("\nswag acc "), 1u) << text.output;

  const std::string page = path("report.html").string();
  expect_success(run(tessera(kAlone, {"report", path("run").string(), "--output", page})));
  EXPECT_NE(read_text(page).find("Multiple choice: swag"), std::string::npos);
}

TEST_F(CliMultipleChoice, ScoresTextsLikeChoices) {
  expect_success(run_train(kAlone, "run"));
  write_text(path("texts.jsonl"), R"({"context": "1 times 1 is ", "continuation": "1,"})"
                                  "\n"
                                  R"({"context": "1 times 1 is", "continuation": " 7,"})"
                                  "\n"
                                  R"({"text": "more than sixteen bytes"})"
                                  "\n");
  const Arguments scores = {"--log-likelihoods", path("texts.jsonl").string(), "--log-samples"};
  const auto scored = [&](int ranks, const char* name, const Arguments& more) {
    Arguments arguments = scores;
    arguments.push_back(path(name).string());
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run_eval(ranks, arguments);
    expect_success(outcome);
    EXPECT_EQ(outcome.count("3 texts with 29 predicted tokens"), 1u) << outcome.output;
    return lines(name);
  };
  const std::vector<Json> alone = scored(kAlone, "alone.jsonl", {});
  const std::vector<Json> two = scored(2, "two.jsonl", {"--tensor", "2", "--micro-batch", "1"});
  expect_success(run_eval(kAlone, {"--multiple-choice", path("plain.jsonl").string(),
                                   "--log-samples", path("plain_log.jsonl").string()}));
  const Json choices = lines("plain_log.jsonl")[0]["log_likelihoods"];
  ASSERT_EQ(alone.size(), 3u);
  ASSERT_EQ(two.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const auto expected = alone[i]["log_likelihood"].get<double>();
    EXPECT_NEAR(two[i]["log_likelihood"].get<double>(), expected, 2e-5 * std::abs(expected));
    EXPECT_EQ(alone[i]["tokens"], i < 2 ? 3 : 23);
    if (i == 2) continue;
    EXPECT_NEAR(choices[i].get<double>(), expected, 2e-6 * std::abs(expected));
  }
  const auto refused = [&](const Arguments& arguments, const Arguments& facts) {
    expect_refused(run_eval(kAlone, arguments), facts);
  };
  refused({"--log-likelihoods", path("texts.jsonl").string()}, {"add --log-samples"});
  Arguments both = scores;
  both.insert(both.end(), {path("x.jsonl").string(), "--data", dataset()});
  refused(both, {"--log-likelihoods scores texts instead of evaluating data", "--data"});
  both.resize(4);
  both.insert(both.end(), {"--multiple-choice", path("plain.jsonl").string()});
  refused(both, {"--multiple-choice and --log-likelihoods are both given"});
}

TEST_F(CliMultipleChoice, RefusesBeforeTheRun) {
  const auto refused = [&](const Arguments& sets, const Arguments& facts) {
    Arguments all = {"data.eval_fraction=0.2", "eval.interval=20"};
    all.insert(all.end(), sets.begin(), sets.end());
    expect_refused(run_train(2, "refused", all), facts);
    EXPECT_TRUE(checkpoints("refused").empty());
  };
  refused({set(), "eval.interval=0"}, {"eval.multiple_choice is [", "eval.interval is 0"});
  refused({"eval.multiple_choice=" + path("none.jsonl").string()}, {"none.jsonl"});
  write_text(path("bad.jsonl"), R"({"question": "a", "choices": ["b", "c"], "answer": 2})");
  refused({"eval.multiple_choice=" + path("bad.jsonl").string()},
          {"bad.jsonl:1", "\"answer\" is 2", "0 to 1"});
  write_text(path("long.jsonl"),
             R"({"question": "a", "choices": ["b", "more than sixteen bytes"], "answer": 1})");
  refused({"eval.multiple_choice=" + path("long.jsonl").string()},
          {"long.jsonl:1: choice 1", "24 tokens", "model.seq_length is 16"});

  expect_success(run_train(kAlone, "run"));
  expect_refused(run_eval(2, {"--multiple-choice", path("bad.jsonl").string()}),
                 {"bad.jsonl:1", "\"answer\" is 2"});
  Arguments both = files();
  both.insert(both.end(), {"--data", dataset()});
  expect_refused(run_eval(kAlone, both), {"--multiple-choice", "--data"});
  expect_refused(run_eval(kAlone, {"--log-samples", path("x.jsonl").string()}),
                 {"--log-samples", "--multiple-choice"});
}

}  // namespace
}  // namespace tessera::test
