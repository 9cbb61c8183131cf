#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;

std::string words(const Arguments& command) { return fmt::format("{}", fmt::join(command, " ")); }

class CliPermissions : public SmallRun {};

// A group that shares runs has umask 002, and who shares nothing 077.
TEST_F(CliPermissions, FollowTheUmask) {
  for (const unsigned mask : {0002u, 0077u}) {
    const std::string name = fmt::format("{:03o}", mask);
    const Arguments train_it =
        train("made/run", {"checkpoint.interval=10", "log.timeline_steps=1"});
    const Arguments supervise = {"supervise", "--", words(tessera(2, train_it))};
    const Arguments export_it = {"export", path("made/run"), "--to", path("made/exported")};
    const Outcome outcome =
        run({"sh", "-c",
             fmt::format("umask {} && mkdir {} && {} && {}", name, path("made").string(),
                         words(tessera(kAlone, supervise)), words(tessera(kAlone, export_it)))});
    expect_success(outcome);
    size_t files = 0;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path("made"))) {
      const auto mode = static_cast<unsigned>(entry.status().permissions());
      EXPECT_EQ(mode, (entry.is_directory() ? 0777u : 0666u) & ~mask) << entry.path();
      ++files;
    }
    EXPECT_GT(files, 15u);
    fs::rename(path("made"), path(name));
  }
}

}  // namespace
}  // namespace tessera::test
