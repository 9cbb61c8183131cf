#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/cli/program.h"
#include "tests/support/test_folder.h"

namespace tessera::test {

/// A folder with a dataset that `tessera prepare` wrote, and a config of a tiny model. The model
/// splits over up to 4 tensor ranks, and the batch over up to 4 data ranks.
class SmallRun : public testing::Test {
 protected:
  static constexpr int64_t kSteps = 20;

  SmallRun();

  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }

  /// The arguments of `tessera train` for the run in folder `run`. `overrides` are "key=value".
  Arguments train(const std::string& run, const Arguments& overrides = {}) const;
  /// Runs `tessera train` with these arguments.
  Outcome run_train(int ranks, const std::string& run, const Arguments& overrides = {}) const;

  /// The losses in the run's metrics.jsonl, by step. A repeated step fails the test.
  std::map<int64_t, double> losses(const std::string& run) const;
  /// The steps of the run's checkpoints, in order.
  std::vector<std::string> checkpoints(const std::string& run) const;

  const std::string& dataset() const { return dataset_; }

 private:
  TestFolder folder_;
  std::string dataset_;
};

std::string read_text(const std::filesystem::path& path);
void write_text(const std::filesystem::path& path, const std::string& text);

/// Expects losses to agree up to fp32 rounding.
void expect_near(const std::map<int64_t, double>& actual,
                 const std::map<int64_t, double>& expected);

}  // namespace tessera::test
