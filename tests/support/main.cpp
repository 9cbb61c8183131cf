// The main() of all tests. Runs registered with CTest pass the expected number of tests as
// --at_least=N. A pattern in --gtest_filter that matches no test is an error, so that renaming a
// test cannot silently drop it from a run.

#include <gtest/gtest.h>

#include <cstdio>

#include "tests/support/selection.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (const auto problem = tessera::test::problem_of_selection(argc, argv)) {
    std::fprintf(stderr, "%s\n", problem->c_str());
    return 2;
  }
  return RUN_ALL_TESTS();
}
