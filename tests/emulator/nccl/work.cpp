// Performs the collectives once all ranks have arrived.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <ranges>
#include <string_view>
#include <type_traits>

#include "core/dtype.h"
#include "tests/emulator/device_memory.h"
#include "tests/emulator/nccl/call.h"

namespace emulator {
namespace {

using tessera::bfloat16;
using Calls = std::vector<NcclCall>;

template <typename T>
T sum(T a, T b) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    return bfloat16(static_cast<float>(a) + static_cast<float>(b));
  } else if constexpr (std::is_integral_v<T>) {
    using Bits = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Bits>(static_cast<Bits>(a) + static_cast<Bits>(b)));
  } else {
    return a + b;
  }
}

template <typename T>
T largest(T a, T b) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    return bfloat16(std::fmax(static_cast<float>(a), static_cast<float>(b)));
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::fmax(a, b);
  } else {
    return std::max(a, b);
  }
}

/// Reduces elements [begin, end) of the ranks' inputs, from the rank after `last` around to it.
template <typename T>
std::vector<T> reduced(const Calls& calls, size_t begin, size_t end, size_t last) {
  const auto sent = [&](size_t i) {
    return static_cast<const T*>(calls[(last + i) % calls.size()].send) + begin;
  };
  std::vector<T> result(sent(1), sent(1) + (end - begin));
  for (size_t i = 2; i <= calls.size(); ++i) {
    const T* next = sent(i);
    for (T& element : result) {
      element = calls[0].op == ncclSum ? sum(element, *next) : largest(element, *next);
      ++next;
    }
  }
  return result;
}

/// In an order that differs from process to process, so that two runs of a program differ as well.
Calls in_random_order(Calls calls) {
  static std::mt19937 random{std::random_device()()};
  std::ranges::shuffle(calls, random);
  return calls;
}

template <typename T>
void reduce(const Calls& calls) {
  const size_t ranks = calls.size();
  const bool scatters = calls[0].kind == NcclKind::reduce_scatter;
  const size_t share = scatters ? calls[0].count : (calls[0].count + ranks - 1) / ranks;
  const size_t total = scatters ? share * ranks : calls[0].count;
  const Calls inputs = permits_nvls() ? in_random_order(calls) : calls;
  std::vector<std::vector<T>> shares;  // read all before writing any: calls may be in place
  for (size_t i = 0; i < ranks; ++i) {
    shares.push_back(
        reduced<T>(inputs, std::min(i * share, total), std::min((i + 1) * share, total), i));
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    auto* out = static_cast<T*>(calls[rank].recv);
    if (scatters) {
      std::copy(shares[rank].begin(), shares[rank].end(), out);
    } else {
      for (const std::vector<T>& part : shares) out = std::copy(part.begin(), part.end(), out);
    }
  }
}

void reduce_any(const Calls& calls) {
  switch (calls[0].type) {
    case ncclInt8:
      return reduce<int8_t>(calls);
    case ncclUint8:
      return reduce<uint8_t>(calls);
    case ncclInt32:
      return reduce<int32_t>(calls);
    case ncclInt64:
      return reduce<int64_t>(calls);
    case ncclFloat32:
      return reduce<float>(calls);
    case ncclFloat64:
      return reduce<double>(calls);
    case ncclBfloat16:
      return reduce<bfloat16>(calls);
  }
}

/// Whether "^A,B" or "A,B" permits the algorithm.
bool permits(std::string_view algorithms, std::string_view name) {
  const bool excludes = algorithms.starts_with('^');
  if (excludes) algorithms.remove_prefix(1);
  bool is_listed = false;
  for (const auto part : std::views::split(algorithms, ',')) {
    is_listed |= std::string_view(part.begin(), part.end()) == name;
  }
  return is_listed != excludes;
}

}  // namespace

bool permits_nvls() {
  const char* enabled = std::getenv("NCCL_NVLS_ENABLE");
  const char* algorithms = std::getenv("NCCL_ALGO");
  return (enabled == nullptr || enabled != std::string_view("0")) &&
         (algorithms == nullptr || permits(algorithms, "NVLS"));
}

void move_data(const Calls& calls) {
  const DeviceAccess access;
  const size_t bytes = calls[0].count * bytes_of(calls[0].type);
  switch (calls[0].kind) {
    case NcclKind::all_reduce:
    case NcclKind::reduce_scatter:
      return reduce_any(calls);
    case NcclKind::all_gather:
      for (const NcclCall& to : calls) {
        auto* out = static_cast<std::byte*>(to.recv);
        for (size_t i = 0; i < calls.size(); ++i)
          std::memmove(out + i * bytes, calls[i].send, bytes);
      }
      return;
    case NcclKind::broadcast:
      for (const NcclCall& to : calls) {
        std::memmove(to.recv, calls[static_cast<size_t>(to.root)].send, bytes);
      }
      return;
    case NcclKind::send:
      return static_cast<void>(std::memmove(calls[1].recv, calls[0].send, bytes));
    case NcclKind::recv:
      return static_cast<void>(std::memmove(calls[0].recv, calls[1].send, bytes));
  }
}

}  // namespace emulator
