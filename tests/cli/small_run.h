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

/// A folder with a dataset that `tessera prepare` made of text, and a config of a tiny model that
/// splits over up to 4 tensor ranks and a batch that splits over up to 4 data ranks.
class SmallRun : public testing::Test {
 protected:
  static constexpr int64_t kSteps = 20;

  SmallRun();

  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }

  /// The arguments of `train` for the run in folder `run`, with keys overridden: {"key=value"}.
  Arguments train(const std::string& run, const Arguments& overrides = {}) const;
  /// Runs them.
  Outcome trained(int ranks, const std::string& run, const Arguments& overrides = {}) const;

  /// By step, from the run's metrics.jsonl. A step that is there twice is a failure of the test.
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
