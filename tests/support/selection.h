#pragma once

#include <optional>
#include <string>

namespace tessera::test {

/// Why the tests chosen by --gtest_filter are not those that were meant: a pattern matches no test,
/// or all patterns match fewer tests than the argument --at_least=N asks for. "" if they are. A
/// shard is judged by all shards' tests. To be called after InitGoogleTest().
std::optional<std::string> problem_of_selection(int argc, char** argv);

}  // namespace tessera::test
