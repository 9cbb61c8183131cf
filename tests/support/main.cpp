// The main() of all tests. A run that is registered with CTest says with --at_least=N how many
// tests it is for. A pattern of its --gtest_filter that matches no test is an error, so that
// renaming a test does not take it out of a run.

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
