#include <gtest/gtest.h>

#include "core/cuda/architectures.h"

namespace tessera::cuda {
namespace {

TEST(CudaArchitectures, MachineCodeRunsOnItsMajorVersion) {
  EXPECT_TRUE(runs_on("80-real", 8, 0));
  EXPECT_TRUE(runs_on("80-real", 8, 9));
  EXPECT_FALSE(runs_on("86-real", 8, 0));
  EXPECT_FALSE(runs_on("80-real", 9, 0));
  EXPECT_TRUE(runs_on("120-real", 12, 1));
}

TEST(CudaArchitectures, PtxRunsOnLaterGpus) {
  for (const char* architecture : {"90-virtual", "90"}) {
    EXPECT_FALSE(runs_on(architecture, 8, 9)) << architecture;
    EXPECT_TRUE(runs_on(architecture, 9, 0)) << architecture;
    EXPECT_TRUE(runs_on(architecture, 12, 0)) << architecture;
  }
}

TEST(CudaArchitectures, SpecificFeaturesRunOnOneGpu) {
  for (const char* architecture : {"90a", "90a-real", "90a-virtual"}) {
    EXPECT_TRUE(runs_on(architecture, 9, 0)) << architecture;
    EXPECT_FALSE(runs_on(architecture, 10, 0)) << architecture;
    EXPECT_FALSE(runs_on(architecture, 8, 0)) << architecture;
  }
  EXPECT_TRUE(runs_on("100f-real", 10, 3));
  EXPECT_FALSE(runs_on("100f-real", 12, 0));
}

TEST(CudaArchitectures, AcceptsListWithOneMatch) {
  constexpr const char* kDefault = "80-real,90a-real,100";
  for (const int minor : {0, 6, 9}) EXPECT_TRUE(any_runs_on(kDefault, 8, minor));
  EXPECT_TRUE(any_runs_on(kDefault, 9, 0));
  EXPECT_TRUE(any_runs_on(kDefault, 12, 0));
  EXPECT_FALSE(any_runs_on("90a-real", 8, 0));
  EXPECT_FALSE(any_runs_on("90a", 10, 0));
}

TEST(CudaArchitectures, AcceptsUnknownArchitectures) {
  EXPECT_TRUE(any_runs_on("", 7, 0));
  EXPECT_TRUE(any_runs_on("native", 7, 0));
  EXPECT_TRUE(any_runs_on("all-major", 7, 0));
}

TEST(CudaArchitectures, NamesCodeForOneArchitecture) {
  EXPECT_TRUE(any_is_for("80-real,90a-real,100", "90a"));
  EXPECT_TRUE(any_is_for("90a", "90a"));
  EXPECT_TRUE(any_is_for("", "90a"));
  EXPECT_FALSE(any_is_for("80-real,90,100a", "90a"));
  EXPECT_FALSE(any_is_for("native", "90a"));
}

}  // namespace
}  // namespace tessera::cuda
