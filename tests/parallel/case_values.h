#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "core/memory.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

// Values that the communicator cases send, and checks of what arrives.

/// Calls body.operator()<T>() for every dtype.
template <typename Body>
void for_each_type(Body&& body) {
  body.template operator()<float>();
  body.template operator()<bfloat16>();
  body.template operator()<double>();
  body.template operator()<int32_t>();
  body.template operator()<int64_t>();
  body.template operator()<uint8_t>();
}

// Small integers: their sums over up to 7 ranks are exact in every dtype.
inline int value_of(int rank, int64_t i) { return (rank + 1) * static_cast<int>(i % 5 + 1); }

inline int sum_of_values(int ranks, int64_t i) { return ranks * (ranks + 1) / 2 * value_of(0, i); }

/// The sum of value(rank) over the ranks [begin, end), as a textbook recursion in the order of
/// parallel/communicators/reduce.h.
template <typename T, typename Value>
T tree_sum(const Value& value, int begin, int end) {
  if (end - begin == 1) return value(begin);
  int left = 1;
  while (2 * left < end - begin) left *= 2;
  return tree_sum<T>(value, begin, begin + left) + tree_sum<T>(value, begin + left, end);
}

template <typename T>
T number(int value) {
  if constexpr (std::is_same_v<T, bfloat16>) return bfloat16(static_cast<float>(value));
  return static_cast<T>(value);
}

inline double to_double(bfloat16 value) { return static_cast<double>(static_cast<float>(value)); }
template <typename T>
double to_double(T value) {
  return static_cast<double>(value);
}

template <typename T>
OwnedTensor filled(int64_t count, int rank, int64_t first = 0) {
  OwnedTensor owned({count}, dtype_of<T>());
  T* data = owned.tensor.data<T>();
  for (int64_t i = 0; i < count; ++i) data[i] = number<T>(value_of(rank, first + i));
  return owned;
}

/// Expects tensor[i] == expected(i) for all i; reports only the first difference.
template <typename T, typename Expected>
void expect_elements(const Tensor& tensor, Expected&& expected, const std::string& what) {
  const T* data = tensor.data<T>();
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    const double found = to_double(data[i]);
    if (found == static_cast<double>(expected(i))) continue;
    ADD_FAILURE() << what << ": element " << i << " of " << to_string(describe(tensor)) << " is "
                  << found << ", expected " << expected(i);
    return;
  }
}

inline std::string who(const Communicator& group) {
  return fmt::format("rank {} of {}", group.rank(), group.size());
}

}  // namespace tessera
