#include "core/lru_cache.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace tessera {
namespace {

TEST(LruCache, EvictsLeastRecentlyUsed) {
  LruCache<int, std::string> cache(2);
  std::vector<int> made;
  const auto ask = [&](int key) {
    return cache.find_or_make(key, [&] {
      made.push_back(key);
      return std::to_string(key);
    });
  };
  EXPECT_EQ(ask(1), "1");
  EXPECT_EQ(ask(2), "2");
  EXPECT_EQ(ask(1), "1");
  EXPECT_EQ(ask(3), "3");  // evicts 2
  EXPECT_EQ(ask(1), "1");
  EXPECT_EQ(ask(2), "2");
  EXPECT_EQ(made, (std::vector{1, 2, 3, 2}));
  EXPECT_EQ(cache.size(), 2u);
}

TEST(LruCache, ErrorLeavesCacheUnchanged) {
  LruCache<int, int> cache(1);
  cache.find_or_make(1, [] { return 10; });
  EXPECT_THROW(cache.find_or_make(2, []() -> int { throw std::runtime_error("no"); }),
               std::runtime_error);
  EXPECT_EQ(cache.find_or_make(1, []() -> int { throw std::runtime_error("made again"); }), 10);
  EXPECT_EQ(cache.find_or_make(2, [] { return 20; }), 20);
}

}  // namespace
}  // namespace tessera
