#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

std::string words(const Arguments& command) { return fmt::format("{}", fmt::join(command, " ")); }

class CliFullDisk : public SmallRun {
 protected:
  /// A shell script for a run that saves step 5 and then cannot save step 10, because `before`
  /// fills the disk in between.
  std::string script(int ranks, const std::string& before) const {
    return fmt::format(
        "{0} --stop-at 5 && {{ {1}; }} || exit 99\n"
        "{0}\n"
        "code=$?; {2}; echo verified $?; ls -a {3}; exit $code",
        words(tessera(ranks, train("disk/run", {"checkpoint.interval=10"}))), before,
        words(tessera(kAlone, {"verify", path("disk/run").string()})),
        path("disk/run/checkpoints").string());
  }

  static void expect_only_step_5_saved(const Outcome& outcome, const std::string& reason) {
    expect_refused(outcome, {"the checkpoint of step 10 was not saved: ", reason, "verified 0"});
    EXPECT_NE(outcome.exit_code, 99) << outcome.output;
    EXPECT_EQ(outcome.count("step_00000005: intact"), 1u) << outcome.output;
    EXPECT_EQ(outcome.count("\n.step_"), 0u)
        << "the partial checkpoint remains: " << outcome.output;
  }
};

TEST_F(CliFullDisk, EndsRunAndKeepsEarlierCheckpoints) {
  std::filesystem::create_directory(path("disk"));
  // Its own file system, in a namespace that ends with the program.
  const std::string mount =
      fmt::format("mount -t tmpfs -o size=2m tessera_test {}", path("disk").string());
  if (run({"unshare", "--mount", "sh", "-c", mount}).exit_code != 0) {
    GTEST_SKIP() << "this user may not mount a file system";
  }
  const std::string fill =
      fmt::format("head -c 1400000 /dev/zero > {}", (path("disk") / "filler").string());
  for (const int ranks : {kAlone, 2}) {
    const std::string whole = fmt::format("{} || exit 99\n{}", mount, script(ranks, fill));
    expect_only_step_5_saved(run({"unshare", "--mount", "sh", "-c", whole}),
                             "No space left on device");
  }
}

TEST_F(CliFullDisk, FileSizeLimitEndsRunAndKeepsEarlierCheckpoints) {
  // 200 blocks of 512 bytes suffice for every file except the tensors.
  const std::string limit = "ulimit -f 200";
  expect_only_step_5_saved(run({"sh", "-c", script(kAlone, limit)}), "File too large");
}

}  // namespace
}  // namespace tessera::test
