#include "launch/tools/inspect/inspect.h"

#include <gtest/gtest.h>

#include "launch/config/write_config.h"
#include "tests/launch/data/test_files.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/small_runs.h"

namespace tessera {
namespace {

/// `inspect RUN --sample N` of a small run.
std::string sample_of_run(const test::TestFolder& folder, const RunConfig& config, int64_t sample) {
  write_file(folder / "config.yaml", to_yaml(config));
  InspectOptions options;
  options.path = folder / "config.yaml";
  options.sample = sample;
  return inspect(options);
}

TEST(Inspect, ShowsASampleOfARun) {
  const test::TestFolder folder;
  test::write_small_data(folder);
  const RunConfig gpt = test::small_run(folder, "gpt", test::SmallKind::gpt);
  const std::string tokens = sample_of_run(folder, gpt, 3);
  EXPECT_TRUE(names_all(tokens, {"sample 3 of ", "16 tokens", "document 0", "ids", "targets"}));
  EXPECT_NE(tokens, sample_of_run(folder, gpt, 4));

  RunConfig labels = test::small_run(folder, "labels", test::SmallKind::classifier);
  write_file(folder / "one.csv", "sentence,mark\n\"w0, w3\",1\nw6,0\n");
  labels.data.train = DataBlend(folder / "one.csv");
  labels.data.columns = {{"text", "sentence"}, {"label", "mark"}};
  labels.data.eval = std::nullopt;
  labels.data.eval_fraction = 0.0;
  labels.data.test_fraction = 0.0;
  const std::string first = sample_of_run(folder, labels, 0);
  const std::string second = sample_of_run(folder, labels, 1);
  const bool swapped = first.find("text 1 of") != std::string::npos;
  EXPECT_TRUE(names_all(swapped ? second : first, {"text 0 of", "one.csv", "w0", "w3", "label"}));
  EXPECT_TRUE(names_all(swapped ? first : second, {"text 1 of", "w6"}));
  test::expect_error([&] { sample_of_run(folder, labels, 2); }, {"--sample is 2", "0 to 1"});
}

TEST(Inspect, ShowsADocumentOfADataset) {
  const test::TestFolder folder;
  write_dataset(folder / "data", {{1, 2, 3}, std::vector<int32_t>(100, 7), {5}});
  InspectOptions options;
  options.path = folder / "data";
  options.document = 1;
  std::string text = inspect(options);
  EXPECT_TRUE(names_all(text, {"document 1 of", "100 tokens"}));
  const std::string folders = folder / "";  // their names may have a 7
  for (size_t at; (at = text.find(folders)) != std::string::npos;) text.erase(at, folders.size());
  EXPECT_EQ(std::ranges::count(text, '7'), 100);
  options.document = 3;
  test::expect_error([&] { inspect(options); }, {"--document is 3", "has 3 documents"});
  options.document.reset();
  options.sample = 1;
  test::expect_error([&] { inspect(options); }, {"--sample", "a run"});
}

}  // namespace
}  // namespace tessera
