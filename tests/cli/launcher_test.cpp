#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;

/// An installation whose variants print their name and arguments.
class CliLauncher : public testing::Test {
 protected:
  CliLauncher() {
    fs::create_directories(path("bin"));
    fs::copy_file(TESSERA_LAUNCHER, path("bin/tessera"));
    for (const char* name : {"x86-64-v3", "x86-64-v4", "x86-64-v4-bf16"}) {
      const fs::path program = path("libexec/tessera") / name / "tessera";
      fs::create_directories(program.parent_path());
      write_text(program, fmt::format("#!/bin/sh\necho {} \"$@\"\n", name));
      fs::permissions(program, fs::perms::owner_all);
    }
  }

  fs::path path(const std::string& name) const { return folder_.path() / name; }

 private:
  TestFolder folder_;
};

const char* best_variant() {
  if (__builtin_cpu_supports("avx512bf16")) return "x86-64-v4-bf16";
  return __builtin_cpu_supports("avx512vl") ? "x86-64-v4" : "x86-64-v3";
}

TEST_F(CliLauncher, StartsTheVariantForThisProcessor) {
  // Also by a link, as in a folder on the PATH.
  fs::create_symlink(path("bin/tessera"), path("link"));
  for (const char* launcher : {"bin/tessera", "link"}) {
    const Outcome outcome = run({path(launcher).string(), "train", "a b"});
    expect_success(outcome);
    EXPECT_EQ(outcome.output, fmt::format("{} train a b\n", best_variant()));
  }
}

TEST_F(CliLauncher, SaysWhichProgramIsMissing) {
  fs::remove_all(path("libexec"));
  expect_refused(run({path("bin/tessera").string()}),
                 {"cannot start ", fmt::format("{}/tessera", best_variant()),
                  "No such file or directory. Is the installation complete?"});
}

}  // namespace
}  // namespace tessera::test
