#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numbers>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "launch/checkpoint/format/safetensors.h"
#include "launch/support/text/json.h"
#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;

class CliEval : public SmallRun {
 protected:
  CliEval() {
    expect_success(run_train(kAlone, "run",
                             {"data.eval_fraction=0.2", "eval.interval=20", "eval.batches=1000"}));
  }

  Outcome run_eval(int ranks, const Arguments& more) const {
    Arguments arguments = {"eval", path("run").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(tessera(ranks, arguments));
  }

  Json report(int ranks, Arguments more = {}) const {
    more.emplace_back("--json");
    const Outcome outcome = run_eval(ranks, more);
    expect_success(outcome);
    return parse_json(outcome.output, "eval --json");
  }

  /// The last evaluation loss that training logged.
  double eval_loss() const {
    double loss = 0.0;
    std::istringstream lines(read_text(path("run") / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const Json json = parse_json(line, "metrics.jsonl");
      if (json.contains("eval_loss")) loss = json["eval_loss"].get<double>();
    }
    return loss;
  }
};

TEST_F(CliEval, MatchesTrainingOnEveryLayout) {
  const double loss = eval_loss();
  ASSERT_GT(loss, 0.0);
  // Micro-batches and ranks are summed in a different order: fp32 rounding.
  EXPECT_NEAR(report(kAlone)["loss"].get<double>(), loss, 1e-5 * loss);
  EXPECT_NEAR(report(2)["loss"].get<double>(), loss, 1e-5 * loss);
  EXPECT_NEAR(report(4, {"--tensor", "2", "--micro-batch", "3"})["loss"].get<double>(), loss,
              1e-5 * loss);
}

TEST_F(CliEval, DerivesPerplexityAndBitsPerByte) {
  const Json found = report(kAlone, {"--data", dataset()});
  const auto loss = found["loss"].get<double>();
  EXPECT_DOUBLE_EQ(found["perplexity"].get<double>(), std::exp(loss));
  // Every token of this dataset is a byte, except for the last, which no full sample reaches.
  EXPECT_DOUBLE_EQ(found["bits_per_byte"].get<double>(), loss / std::numbers::ln2);
  const Outcome outcome = run_eval(kAlone, {"--data", dataset()});
  expect_success(outcome);
  EXPECT_EQ(outcome.count("bits per byte"), 1u) << outcome.output;
}

TEST_F(CliEval, EvaluatesSomeSamples) {
  const Json found = report(2, {"--data", dataset(), "--max-samples", "3"});
  EXPECT_EQ(found["samples"], 3);
  EXPECT_EQ(found["tokens"], 3 * 16);
  EXPECT_EQ(found["token_targets"], 3 * 16);
}

TEST_F(CliEval, FindsConfigDespiteTrailingSlash) {
  const auto loss = [&](const std::string& end) {
    const std::string step = (path("run") / "checkpoints" / checkpoints("run").back()).string();
    const Outcome outcome = run(tessera(kAlone, {"eval", step + end, "--json"}));
    expect_success(outcome);
    return parse_json(outcome.output, "eval --json")["loss"].get<double>();
  };
  EXPECT_EQ(loss("/"), loss(""));
}

TEST_F(CliEval, DumpsLossesAndTokens) {
  const std::string dump = path("dump.safetensors").string();
  const Json found = report(kAlone, {"--data", dataset(), "--dump", dump});
  const SafetensorsFile file(dump);
  const auto values = [&]<typename T>(const char* name, T) {
    const auto bytes = file.bytes(file.entry(name));
    std::vector<T> all(bytes.size() / sizeof(T));
    std::memcpy(all.data(), bytes.data(), bytes.size());
    return all;
  };
  EXPECT_EQ(values("losses", double{})[0], found["loss"].get<double>());
  const auto samples = found["samples"].get<size_t>();
  EXPECT_EQ(values("document_lengths", int32_t{}), std::vector<int32_t>(samples, 16));
  const std::string text = read_text(path("text.txt")).substr(0, 16 * samples + 1);
  const std::vector<int32_t> bytes(text.begin(), text.end());
  EXPECT_EQ(values("tokens", int32_t{}), std::vector<int32_t>(bytes.begin(), bytes.end() - 1));
  EXPECT_EQ(values("targets", int32_t{}), std::vector<int32_t>(bytes.begin() + 1, bytes.end()));
}

TEST_F(CliEval, RejectsInvalidRequests) {
  expect_refused(run_eval(2, {"--dump", path("dump").string()}), {"--dump", "2 ranks"});
  expect_refused(run_eval(2, {"--tensor", "3"}), {"--tensor is 3", "2 ranks"});
  expect_refused(run_eval(kAlone, {"--data", path("none").string()}), {"none.idx"});
  expect_refused(run_eval(kAlone, {"--data", dataset(), "--part", "train"}), {"--part", "--data"});

  // A step folder outside any run.
  const fs::path alone = path("alone");
  fs::copy(path("run") / "checkpoints" / checkpoints("run").back(), alone,
           fs::copy_options::recursive);
  const auto eval_alone = [&](const Arguments& more) {
    Arguments arguments = {"eval", alone.string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(tessera(kAlone, arguments));
  };
  expect_refused(eval_alone({}), {"config.yaml", "--data"});
  expect_success(eval_alone({"--data", dataset()}));
  expect_success(eval_alone({"--data", dataset(), "--set", "data.separate_documents=true"}));
  for (const char* key : {"model.hidden_size=48", "data.tokenizer=byte", "eval.batches=1"}) {
    expect_refused(run_eval(kAlone, {"--set", key}), {key, "mlm"});
  }

  // Rejected before evaluation starts.
  expect_refused(run_eval(kAlone, {"--dump", path("text.txt").string()}), {"--dump", "exists"});

  // Data from a different tokenizer.
  write_text(path("vocab.txt"), "[UNK]\na\n");
  const std::string other = path("other").string();
  expect_success(
      run(tessera(kAlone, {"prepare", "--input", path("text.txt").string(), "--output", other,
                           "--tokenizer", "wordpiece:" + path("vocab.txt").string()})));
  expect_refused(run_eval(kAlone, {"--data", other}),
                 {"other.meta.json", "the checkpoint's tokenizer is byte with 257 tokens"});
}

}  // namespace
}  // namespace tessera::test
