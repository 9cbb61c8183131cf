#include "core/threads/parallel_for.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/tensors.h"

namespace tessera {
namespace {

/// How often parallel_for visits each of n items.
std::vector<int> visits(int64_t n, int64_t grain) {
  std::vector<int> visits(static_cast<size_t>(n));
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
  });
  return visits;
}

TEST(ParallelFor, VisitsEachItemOnce) {
  const test::ThreadCount count(4);
  for (const int64_t n : {0, 1, 3, 4, 5, 1000}) {
    for (const int64_t grain : {0, 1, 7, 2000}) {
      EXPECT_EQ(visits(n, grain), std::vector<int>(static_cast<size_t>(n), 1))
          << n << " items, grain " << grain;
    }
  }
}

TEST(ParallelForEach, VisitsEachItemOnce) {
  for (const int threads : {1, 4}) {
    const test::ThreadCount count(threads);
    for (const int64_t n : {0, 1, 3, 1000}) {
      std::vector<int> visits(static_cast<size_t>(n));
      parallel_for_each(n, [&](int64_t i) { ++visits[static_cast<size_t>(i)]; });
      EXPECT_EQ(visits, std::vector<int>(static_cast<size_t>(n), 1)) << n << " items";
    }
  }
}

// Inside a parallel region, OpenMP starts one thread, however many are requested. Limits on the
// number of threads have the same effect.
TEST(ParallelFor, VisitsEachItemOnceWithFewerThreads) {
  const test::ThreadCount count(4);
  const int levels = omp_get_max_active_levels();
  omp_set_max_active_levels(1);
  std::vector<int> first;
#pragma omp parallel num_threads(2)
  {
    const std::vector<int> mine = visits(1000, 1);
#pragma omp critical
    if (omp_get_thread_num() == 0) first = mine;
  }
  omp_set_max_active_levels(levels);
  EXPECT_EQ(first, std::vector<int>(1000, 1));
}

}  // namespace
}  // namespace tessera
