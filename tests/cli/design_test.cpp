#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

class CliDesign : public SmallRun {
 protected:
  CliDesign() {
    std::string text;
    for (int i = 0; i < 3000; ++i)
      text += i % 3 == 0 ? "a good day and so on\n" : "one bad night\n";
    write_text(path("text.txt"), text);
  }

  Arguments design(const std::string& input, const std::string& output) const {
    return {"design", "--text", input, "--minutes", "0.1", "--output", path(output).string()};
  }
};

TEST_F(CliDesign, WritesARunThatTrains) {
  const int ranks = 2;
  const Outcome designed = run(tessera(ranks, design(path("text.txt").string(), "design")));
  expect_success(designed);
  EXPECT_EQ(designed.count("chosen"), 1U) << designed.output;
  const std::string config = (path("design") / "train.yaml").string();
  EXPECT_EQ(designed.count("tessera run -np 2 train " + config), 1U) << designed.output;
  const std::string yaml = read_text(config);
  EXPECT_NE(yaml.find("  # The lowest expected loss of "), std::string::npos) << yaml;
  expect_success(run(tessera(ranks, {"train", config, "--stop-at", "2"})));
}

TEST_F(CliDesign, RefusesWhatItCannotUse) {
  write_text(path("empty.txt"), "");
  const std::string text = path("text.txt").string();
  expect_refused(run(tessera(kAlone, design("-", "a"))), {"standard input is not a file"});
  expect_refused(run(tessera(kAlone, design(path("empty.txt").string(), "b"))),
                 {"there is no text to train a vocabulary on"});
  expect_refused(run(tessera(kAlone, design(text, "."))), {"already exists", "--output"});
  // Less than a row, which is known only after the folder was made.
  write_text(path("short.txt"), "short\n");
  expect_refused(run(tessera(kAlone, design(path("short.txt").string(), "c"))), {"c/data"});
  for (const char* folder : {"a", "b", "c"}) {
    EXPECT_FALSE(std::filesystem::exists(path(folder))) << folder;
  }
  EXPECT_TRUE(std::filesystem::exists(path("text.txt")));
}

}  // namespace
}  // namespace tessera::test
