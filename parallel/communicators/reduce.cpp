#include "parallel/communicators/reduce.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "core/error.h"

namespace tessera {
namespace {

// A piece of the sum that stays in the L1 cache while the inputs stream through.
constexpr int64_t kBlock = 1024;

// fp32 for bf16. Unsigned for integers, whose sums then wrap around without undefined behavior.
template <typename T, ReduceOp op>
auto accumulator() {
  if constexpr (std::is_same_v<T, bfloat16>) {
    return float{};
  } else if constexpr (std::is_integral_v<T> && op == ReduceOp::sum) {
    return std::make_unsigned_t<T>{};
  } else {
    return T{};
  }
}

template <ReduceOp op, typename Acc>
Acc combine(Acc a, Acc b) {
  if constexpr (op == ReduceOp::sum) {
    return static_cast<Acc>(a + b);
  } else if constexpr (std::is_floating_point_v<Acc>) {
    return a > b || std::isnan(a) ? a : b;  // propagates a NaN from either side
  } else {
    return std::max(a, b);
  }
}

/// Adds terms of values of type T, and accumulates in `Acc`.
template <typename T, ReduceOp op>
class Tree {
  using Acc = decltype(accumulator<T, op>());

 public:
  explicit Tree(std::span<const ReduceTerm> terms)
      : terms_(terms),
        all_{terms.front().ranks.begin, terms.back().ranks.end},
        sums_(static_cast<size_t>(std::bit_width(static_cast<uint64_t>(all_.size())) + 1)) {}

  /// The elements [begin, begin + length) of the result, at most kBlock.
  const Acc* block(int64_t begin, int64_t length) {
    begin_ = begin;
    length_ = static_cast<size_t>(length);
    const size_t used = reduce(all_, 0, 0);
    require(used == terms_.size(), "reduce: {} of {} terms are in the order of ranks", used,
            terms_.size());
    return sums_[0].data();
  }

 private:
  // Reduces the ranks whose first term is `first` into sums_[level]; returns the next term.
  size_t reduce(Range ranks, size_t first, size_t level) {
    std::array<Acc, kBlock>& sums = sums_[level];
    if (is_term(first, ranks)) {
      each(terms_[first], [&](size_t i, Acc value) { sums[i] = value; });
      return first + 1;
    }
    require(ranks.size() > 1, "reduce: no term has rank {}", ranks.begin);
    const int64_t middle = sum_split(ranks);
    const Range right{middle, ranks.end};
    const size_t second = reduce({ranks.begin, middle}, first, level);
    if (is_term(second, right)) {
      each(terms_[second], [&](size_t i, Acc value) { sums[i] = combine<op>(sums[i], value); });
      return second + 1;
    }
    const size_t next = reduce(right, second, level + 1);
    const std::array<Acc, kBlock>& others = sums_[level + 1];
    for (size_t i = 0; i < length_; ++i) sums[i] = combine<op>(sums[i], others[i]);
    return next;
  }

  bool is_term(size_t term, Range ranks) const {
    return term < terms_.size() && terms_[term].ranks == ranks;
  }

  template <typename Body>
  void each(const ReduceTerm& term, Body&& body) const {
    const auto visit = [&](const auto* values) {
      for (size_t i = 0; i < length_; ++i) body(i, static_cast<Acc>(values[i]));
    };
    if (term.dtype == dtype_of<T>()) {
      visit(static_cast<const T*>(term.data) + begin_);
    } else {
      visit(static_cast<const Acc*>(term.data) + begin_);
    }
  }

  std::span<const ReduceTerm> terms_;
  Range all_;
  std::vector<std::array<Acc, kBlock>> sums_;
  int64_t begin_ = 0;
  size_t length_ = 0;
};

template <typename T, ReduceOp op>
void reduce(std::span<const ReduceTerm> terms, DType result, std::span<void* const> outputs,
            int64_t count) {
  Tree<T, op> tree(terms);
  const auto write = [&]<typename Result>(Result* /*type*/, const auto* sums, int64_t begin,
                                          int64_t length) {
    for (void* output : outputs) {
      Result* to = static_cast<Result*>(output) + begin;
      for (int64_t i = 0; i < length; ++i) to[i] = static_cast<Result>(sums[i]);
    }
  };
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t length = std::min(kBlock, count - begin);
    const auto* sums = tree.block(begin, length);
    if (result == dtype_of<T>()) {
      write(static_cast<T*>(nullptr), sums, begin, length);
    } else {
      write(static_cast<float*>(nullptr), sums, begin, length);  // bf16 only
    }
  }
}

template <typename T>
void reduce(ReduceOp op, std::span<const ReduceTerm> terms, DType result,
            std::span<void* const> outputs, int64_t count) {
  if (op == ReduceOp::sum) {
    reduce<T, ReduceOp::sum>(terms, result, outputs, count);
  } else {
    reduce<T, ReduceOp::max>(terms, result, outputs, count);
  }
}

}  // namespace

int64_t sum_split(Range ranks) {
  return ranks.begin +
         static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(ranks.size() - 1)));
}

DType accumulator_of(DType dtype) { return dtype == DType::bf16 ? DType::f32 : dtype; }

void reduce_terms(DType dtype, ReduceOp op, std::span<const ReduceTerm> terms, DType result,
                  std::span<void* const> outputs, int64_t count) {
  switch (dtype) {
    case DType::f32:
      return reduce<float>(op, terms, result, outputs, count);
    case DType::bf16:
      return reduce<bfloat16>(op, terms, result, outputs, count);
    case DType::f64:
      return reduce<double>(op, terms, result, outputs, count);
    case DType::i32:
      return reduce<int32_t>(op, terms, result, outputs, count);
    case DType::i64:
      return reduce<int64_t>(op, terms, result, outputs, count);
    case DType::u8:
      return reduce<uint8_t>(op, terms, result, outputs, count);
  }
}

}  // namespace tessera
