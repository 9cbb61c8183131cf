#include "parallel/process_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/error.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ProcessGrid, TensorIsInnermost) {
  const ProcessGrid grid(6, 3);
  EXPECT_EQ(grid.data(), 2);
  EXPECT_EQ(grid.place_of(4), (GridPlace{1, 1}));
  EXPECT_THAT(grid.tensor_group(1), ElementsAre(3, 4, 5));
  EXPECT_THAT(grid.data_group(2), ElementsAre(2, 5));
}

TEST(ProcessGrid, EveryRankHasOnePlaceAndOneGroupPerAxis) {
  for (int world_size = 1; world_size <= 24; ++world_size) {
    for (int tensor = 1; tensor <= world_size; ++tensor) {
      if (world_size % tensor != 0) continue;
      const ProcessGrid grid(world_size, tensor);
      std::multiset<int> in_tensor_groups;
      std::multiset<int> in_data_groups;
      for (int i = 0; i < grid.data(); ++i) {
        for (const int rank : grid.tensor_group(i)) in_tensor_groups.insert(rank);
      }
      for (int i = 0; i < grid.tensor(); ++i) {
        for (const int rank : grid.data_group(i)) in_data_groups.insert(rank);
      }
      for (int rank = 0; rank < world_size; ++rank) {
        EXPECT_EQ(grid.world_rank_of(grid.place_of(rank)), rank);
        EXPECT_EQ(in_tensor_groups.count(rank), 1U);
        EXPECT_EQ(in_data_groups.count(rank), 1U);
      }
      EXPECT_EQ(in_tensor_groups.size(), static_cast<size_t>(world_size));
    }
  }
}

std::string error_of_grid(int world_size, int tensor) {
  return test::error_of([&] { ProcessGrid(world_size, tensor); });
}

TEST(ProcessGrid, ErrorListsValidTensorSizes) {
  EXPECT_EQ(
      error_of_grid(4, 3),
      "parallel.tensor is 3, but the run has 4 ranks: each replica of the model takes 3 ranks, so "
      "choose a divisor of 4 (1, 2, 4), or start a multiple of 3 ranks");
  EXPECT_THAT(error_of_grid(1, 2), HasSubstr("but the run has 1 rank:"));
  EXPECT_THAT(error_of_grid(4, 8), HasSubstr("choose a divisor of 4 (1, 2, 4)"));
  EXPECT_THAT(error_of_grid(4, 0), HasSubstr("parallel.tensor is 0"));
  EXPECT_THAT(error_of_grid(4, -2), HasSubstr("parallel.tensor is -2"));
  EXPECT_THAT(error_of_grid(0, 1), HasSubstr("at least one rank"));
}

TEST(ProcessGrid, RefusesPlacesOutsideGrid) {
  const ProcessGrid grid(4, 2);
  EXPECT_THROW(grid.place_of(4), Error);
  EXPECT_THROW(grid.place_of(-1), Error);
  EXPECT_THROW(grid.world_rank_of({2, 0}), Error);
  EXPECT_THROW(grid.tensor_group(2), Error);
  EXPECT_THROW(grid.data_group(-1), Error);
}

TEST(ProcessGrid, PrintsItsGroups) {
  EXPECT_EQ(to_string(ProcessGrid(4, 2)),
            "4 ranks = 2 data × 2 tensor\n"
            "  tensor groups: {0, 1} {2, 3}\n"
            "  data groups:   {0, 2} {1, 3}\n");
  EXPECT_EQ(to_string(ProcessGrid(1, 1)),
            "1 rank = 1 data × 1 tensor\n"
            "  tensor groups: {0}\n"
            "  data groups:   {0}\n");
  EXPECT_THAT(to_string(ProcessGrid(64, 2)), HasSubstr("{12, 13} ... {62, 63}\n"));
  EXPECT_THAT(to_string(ProcessGrid(64, 2)), HasSubstr("{0, 2, 4, 6, 8, 10, 12, ..., 62} {1, 3"));
}

}  // namespace
}  // namespace tessera
