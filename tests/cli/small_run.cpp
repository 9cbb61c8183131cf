#include "tests/cli/small_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>

#include "launch/support/text/json.h"

namespace tessera::test {

namespace fs = std::filesystem;

namespace {

// As in training_world.cpp: a large eps keeps weights in place whose gradient is only rounding, so
// that layouts can be compared.
constexpr const char* kConfig = R"(run:
  dir: {0}/run
model:
  num_layers: 2
  hidden_size: 32
  num_heads: 4
  seq_length: 16
  vocab_size: 257
  dropout: 0.0
  attention_dropout: 0.0
  init_stddev: 0.1
data:
  train: {0}/data
batch:
  global: 8
  micro: 2
train:
  steps: {1}
optimizer:
  lr: 1.0e-2
  warmup_steps: 3
  eps: 1.0e-2
log:
  interval: 1
)";

std::string some_text() {
  std::string text;
  for (int i = 0; i < 100; ++i) {
    text += fmt::format("{} times {} is {}, and that is all.\n", i, i % 7, i * (i % 7));
  }
  return text;
}

}  // namespace

SmallRun::SmallRun() : dataset_(folder_ / "data") {
  write_text(path("text.txt"), some_text());
  write_text(path("config.yaml"), fmt::format(kConfig, folder_.path().string(), kSteps));
  expect_success(run(tessera(
      kAlone, {"prepare", "--append-eod", "--input", folder_ / "text.txt", "--output", dataset_})));
}

Arguments SmallRun::train(const std::string& run, const Arguments& overrides) const {
  Arguments arguments = {"train", folder_ / "config.yaml", "--set", "run.dir=" + (folder_ / run)};
  for (const std::string& text : overrides) {
    if (text.compare(0, 2, "--") != 0) arguments.emplace_back("--set");
    arguments.push_back(text);
  }
  return arguments;
}

Outcome SmallRun::run_train(int ranks, const std::string& run, const Arguments& overrides) const {
  return test::run(tessera(ranks, train(run, overrides)));
}

std::map<int64_t, double> SmallRun::losses(const std::string& run) const {
  std::map<int64_t, double> losses;
  std::ifstream file(path(run) / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    const Json json = parse_json(line, "metrics.jsonl");
    if (!json.contains("loss")) continue;
    const bool is_new = losses.emplace(json.at("step"), json.at("loss")).second;
    EXPECT_TRUE(is_new) << "step " << json.at("step") << " appears twice";
  }
  return losses;
}

std::vector<std::string> SmallRun::checkpoints(const std::string& run) const {
  std::vector<std::string> names;
  const fs::path folder = path(run) / "checkpoints";
  if (!fs::exists(folder)) return names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  ASSERT_TRUE(file.flush().good()) << path;
}

void expect_near(const std::map<int64_t, double>& actual,
                 const std::map<int64_t, double>& expected) {
  // See tests/equivalence/layouts_test.cpp.
  constexpr double kTolerance = 2e-5;
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [step, loss] : expected) {
    ASSERT_EQ(actual.count(step), 1u) << "step " << step << " is missing";
    EXPECT_NEAR(actual.at(step), loss, kTolerance * std::abs(loss)) << "step " << step;
  }
}

}  // namespace tessera::test
