#include "launch/support/same_on_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "launch/config/config_changes.h"
#include "parallel/communicators/exchange.h"
#include "parallel/communicators/thread/thread_communicator.h"

namespace tessera {
namespace {

/// The message that all `size` ranks throw, or "" if their values agree.
std::string shared_error(int size, const std::function<std::vector<NamedValue>(int rank)>& values) {
  std::mutex mutex;
  std::multiset<std::string> messages;
  run_thread_ranks(size, [&](Communicator& world) {
    std::string message;
    try {
      require_same_on_ranks(world, values(world.rank()), "Do this");
    } catch (const SharedError& error) {
      message = error.what();
    }
    const std::scoped_lock lock(mutex);
    messages.insert(message);
  });
  EXPECT_EQ(messages.count(*messages.begin()), size) << "ranks throw different errors";
  return *messages.begin();
}

TEST(SameOnRanks, AcceptsEqualValues) {
  for (const int size : {1, 2, 5}) {
    EXPECT_EQ(shared_error(size, [](int) { return std::vector<NamedValue>{{"a", "1"}}; }), "");
  }
}

TEST(SameOnRanks, NamesValuesAndRanks) {
  const auto said = [](const std::string& what) {
    return "the ranks do not belong together: " + what + ". Do this";
  };
  EXPECT_EQ(
      shared_error(5,
                   [](int rank) {
                     return std::vector<NamedValue>{{"a", "x"}, {"lr", rank == 3 ? "0.1" : "0.2"}};
                   }),
      said("lr is 0.2 on ranks 0-2, 4, but 0.1 on rank 3"));
  EXPECT_EQ(
      shared_error(2,
                   [](int rank) {
                     std::vector<NamedValue> values = {{"command", rank == 0 ? "train" : "eval"}};
                     if (rank == 1) values.push_back({"--json", "true"});
                     return values;
                   }),
      said("command is train on rank 0, but eval on rank 1; --json is not given on rank 0, "
           "but true on rank 1"));
  EXPECT_EQ(shared_error(3,
                         [](int rank) {
                           return std::vector<NamedValue>{{"n", std::to_string(rank)}};
                         }),
            said("n is 0 on rank 0, but 1 on rank 1, but 2 on rank 2"));
}

TEST(SameOnRanks, BoundsTheMessage) {
  const std::string message = shared_error(2, [](int rank) {
    std::vector<NamedValue> values;
    for (int i = 0; i < 20; ++i) {
      values.push_back({fmt::format("key{}", i), std::string(100'000, rank == 0 ? 'a' : '\xff')});
    }
    return values;
  });
  EXPECT_THAT(message, testing::HasSubstr("and 12 more differ"));
  EXPECT_LT(message.size(), 10'000);
}

TEST(SameOnRanks, FindsAnyKeyOfAConfiguration) {
  const size_t keys = config_values({}).size();
  EXPECT_GT(keys, 50);
  for (size_t key = 0; key < keys; ++key) {
    std::string name;
    const std::string message = shared_error(2, [&](int rank) {
      std::vector<NamedValue> values = config_values({});
      if (rank == 1) values[key].value += "0";
      if (rank == 0) name = values[key].name;
      return values;
    });
    EXPECT_THAT(message, testing::HasSubstr(name + " is "));
  }
}

}  // namespace
}  // namespace tessera
