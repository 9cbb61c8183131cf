#include "launch/logging/metrics_log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "tests/support/expect_error.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

SavedCheckpoint saved_at(int64_t step) {
  SavedCheckpoint saved;
  saved.step = step;
  return saved;
}

TEST(MetricsLog, KeepsLinesUntilThereIsRoom) {
  const test::TestFolder folder;
  MetricsLog log(folder.path(), 0);
  log.saved(saved_at(1));
  const std::filesystem::path path = folder.path() / "metrics.jsonl";
  const std::string first = text_of(path);
  {
    const test::FileSizeLimit limit(first.size() + 10);  // room for a part of the next line
    log.saved(saved_at(2));
    log.saved(saved_at(3));
    EXPECT_EQ(log.problem(), "File too large");
    EXPECT_EQ(text_of(path), first);
  }
  EXPECT_EQ(log.problem(), std::nullopt);
  std::string expected = first;
  for (const char* step : {"2", "3"}) {
    std::string line = first;
    expected += line.replace(line.find("\"step\":1") + 7, 1, step);
  }
  EXPECT_EQ(text_of(path), expected);
}

TEST(MetricsLog, WritesBadStepsAndRollbacks) {
  const test::TestFolder folder;
  MetricsLog log(folder.path(), 0);
  BadStep bad;
  bad.step = 7;
  bad.reason = "spike";
  bad.grad_norm = 8.0;
  bad.median = 2.0;
  bad.skipped_steps = 1;
  bad.samples = {3, 5};
  log.bad_step(bad);
  bad.reason = "loss";
  bad.grad_norm = NAN;
  bad.median = 0.0;
  bad.diagnosis = {{"weight", "w"}};
  log.rolled_back(4, bad, 2);
  EXPECT_EQ(text_of(folder.path() / "metrics.jsonl"),
            R"({"bad_step":"spike","grad_norm":8.0,"median":2.0,"samples":[3,5],)"
            R"("skipped_steps":1,"step":7})"
            "\n"
            R"({"bad_step":"loss","failed_step":7,"grad_norm":null,"rollbacks":2,)"
            R"("samples":[3,5],"skipped_steps":1,"step":4,"weight":"w"})"
            "\n");
}

TEST(MetricsLog, KeepsSamplesOfStepsThatWereSaved) {
  const test::TestFolder folder;
  const std::filesystem::path path = folder.path() / "samples.jsonl";
  const std::string first = R"({"prompt":"a\n","step":4,"text":"x\u001b\"y"})"
                            "\n";
  {
    MetricsLog log(folder.path(), 0, {}, /*has_samples=*/true);
    log.samples(4, {{"a\n", "x\x1b\"y"}});
    log.samples(6, {{"b", "\xff"}, {"b", ""}});
    EXPECT_EQ(text_of(path), first + "{\"prompt\":\"b\",\"step\":6,\"text\":\"\xef\xbf\xbd\"}\n" +
                                 "{\"prompt\":\"b\",\"step\":6,\"text\":\"\"}\n");
  }
  const MetricsLog resumed(folder.path(), 5);  // now without prompts
  EXPECT_EQ(text_of(path), first);
}

TEST(MetricsLog, RefusesWhatIsNoFile) {
  const test::TestFolder folder;
  ASSERT_EQ(::mkfifo((folder.path() / "metrics.jsonl").c_str(), 0600), 0);
  test::expect_error([&] { MetricsLog(folder.path(), 0); }, {"metrics.jsonl is no regular file"});
}

}  // namespace
}  // namespace tessera
