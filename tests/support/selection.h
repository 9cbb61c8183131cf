#pragma once

#include <optional>
#include <string>

namespace tessera::test {

/// Returns why --gtest_filter selects the wrong tests: a pattern matches no test, or all patterns
/// match fewer tests than --at_least=N requires. Returns nothing if the selection is right. A shard
/// is judged by the tests of all shards. Call after InitGoogleTest().
std::optional<std::string> problem_of_selection(int argc, char** argv);

}  // namespace tessera::test
