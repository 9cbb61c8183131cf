#include "parallel/communicators/mpi/mpi_launch.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace tessera {
namespace {

std::optional<MpiLaunch> find_in(const std::map<std::string, std::string>& environment) {
  return find_mpi_launch([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(MpiLaunch, RecognizesLaunchers) {
  EXPECT_EQ(find_in({{"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_RANK", "0"}})->ranks, 4);
  EXPECT_EQ(find_in({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}})->ranks, 2);
  EXPECT_EQ(find_in({{"PMIX_RANK", "1"}, {"SLURM_STEP_NUM_TASKS", "8"}})->ranks, 8);
  EXPECT_EQ(find_in({{"PMIX_RANK", "1"}})->ranks, std::nullopt);
  EXPECT_EQ(find_in({{"PMI_RANK", "1"}})->variable, "PMI_RANK");
}

TEST(MpiLaunch, IsEmptyForPlainProcess) {
  EXPECT_FALSE(find_in({{"HOME", "/root"}}).has_value());
  // A batch script, and a shell in a job step of one task.
  EXPECT_FALSE(find_in({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}));
  EXPECT_FALSE(find_in({{"SLURM_STEP_NUM_TASKS", "1"}}));
}

TEST(MpiLaunch, RecognizesSeveralTasksWithoutPmi) {
  EXPECT_EQ(find_in({{"SLURM_STEP_NUM_TASKS", "4"}})->ranks, 4);
}

TEST(MpiLaunch, IgnoresNonNumericCount) {
  const auto launch = find_in({{"OMPI_COMM_WORLD_SIZE", "four"}});
  ASSERT_TRUE(launch.has_value());
  EXPECT_EQ(launch->ranks, std::nullopt);
}

}  // namespace
}  // namespace tessera
