// Products of a warpgroup, as PTX's wgmma describes them. A warp's 16 rows need only its own A and
// the B that all share, so each warp computes its part when its lanes wait.

#include "tests/emulator/group_products.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "tests/emulator/block.h"

#ifdef EMULATOR_FINDS_RACES
extern "C" void __tsan_read16(const void* address);
#endif

namespace emulator {
namespace {

/// Tells ThreadSanitizer, which does not check this source, that the running thread reads a chunk.
void note_read([[maybe_unused]] const std::byte* chunk) {
#ifdef EMULATOR_FINDS_RACES
  __tsan_read16(chunk);
#endif
}

constexpr unsigned kWarps = 4;            // of a warpgroup
constexpr uint32_t kFirstAddress = 1024;  // of dynamic shared memory in the shared window
constexpr size_t kChunk = 16;             // bytes
constexpr int kRows = 16, kDepth = 16;

float bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

/// Of registers in the layout of mma's A.
void unpack(const uint32_t (&registers)[32][4], float (&a)[kRows][kDepth]) {
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      float* const pair = &a[g + 8 * (i % 2)][2 * t + 8 * (i / 2)];
      pair[0] = bf16(static_cast<uint16_t>(registers[lane][i]));
      pair[1] = bf16(static_cast<uint16_t>(registers[lane][i] >> 16));
    }
  }
}

/// The place of a lane's accumulator j of row i.
int place_of(int lane, int i, int j, int n) {
  return (lane / 4 + 8 * i) * n + 8 * (j / 2) + 2 * (lane % 4) + j % 2;
}

}  // namespace

void GroupProducts::begin(std::byte* shared, size_t bytes, unsigned threads) {
  shared_ = shared;
  bytes_ = bytes;
  warps_.assign((threads + 31) / 32, {});
  started_.assign((warps_.size() + kWarps - 1) / kWarps, {});
  unpublished_.assign((bytes + kChunk - 1) / kChunk, 0);
  for (auto* by_thread : {&written_, &fenced_}) {
    by_thread->resize(threads);
    for (auto& of_thread : *by_thread) of_thread.clear();
  }
}

void GroupProducts::require_all_warps() const {
  for (size_t warp = 0; warp < warps_.size(); ++warp) {
    const size_t started = warps_[warp].started, all = started_[warp / kWarps].size();
    if (started == all) continue;
    fail("warp " + std::to_string(warp) + " started " + std::to_string(started) + " of the " +
         std::to_string(all) + " products of its warpgroup, which needs all four warps");
  }
}

void GroupProducts::at_barrier() {
  require_all_warps();
  for (auto& of_thread : fenced_) {
    for (const uint32_t i : of_thread) --unpublished_[i];
    of_thread.clear();
  }
}

void GroupProducts::end() const {
  require_all_warps();
  for (const Warp& warp : warps_) {
    if (!warp.pending.empty()) fail("the kernel ended before it waited for its products");
  }
}

uint32_t GroupProducts::address_of(const void* place) const {
  const auto offset = static_cast<size_t>(static_cast<const std::byte*>(place) - shared_);
  if (offset >= bytes_) fail("an operand of a product is not in dynamic shared memory");
  return kFirstAddress + static_cast<uint32_t>(offset);
}

void GroupProducts::wrote(unsigned thread, const void* to, size_t bytes) {
  const auto first = static_cast<size_t>(static_cast<const std::byte*>(to) - shared_);
  if (first >= bytes_) return;
  for (size_t i = first / kChunk; i * kChunk < first + bytes; ++i) {
    // Writes of one chunk in a row count once.
    auto& written = written_[thread];
    if (!written.empty() && written.back() == i) continue;
    written.push_back(static_cast<uint32_t>(i));
    ++unpublished_[i];
  }
}

void GroupProducts::fence_proxy(unsigned thread) {
  // A list of all threads would grow by memmove(), which ThreadSanitizer checks also here.
  auto &written = written_[thread], &fenced = fenced_[thread];
  fenced.insert(fenced.end(), written.begin(), written.end());
  written.clear();
}

const std::byte* GroupProducts::chunk(uint64_t descriptor, bool transposed, int column,
                                      int k) const {
  const auto field = [&](int bit) {
    return static_cast<uint32_t>(descriptor >> bit & 0x3fffu) * 16;
  };
  const uint32_t start = field(0), leading = field(16), stride = field(32);
  const auto swizzle = static_cast<unsigned>(descriptor >> 62);
  if ((descriptor >> 49 & 7) != 0) fail("a descriptor has a base offset");
  // Rows of 16 bytes, or as wide as the swizzle's pattern, in groups of 8.
  const int width = swizzle == 0 ? 16 : 256 >> swizzle, elements = width / 2;
  uint32_t address = start;
  const auto add = [&](int rows, uint32_t bytes) {
    address += static_cast<uint32_t>(rows) * bytes;
  };
  if (!transposed) {  // rows are columns of B, 8 elements of which are along k
    add(column / 8, stride);
    add(column % 8, static_cast<uint32_t>(width));
    add(k / 8, swizzle == 0 ? leading : 16);
  } else if (swizzle == 0) {
    add(column / 8, stride);
    add(k % 8, 16);
    add(k / 8, leading);
  } else {
    add(column / elements, leading);
    add(column % elements, 2);
    add(k % 8, static_cast<uint32_t>(width));
    add(k / 8, stride);
  }
  const uint32_t bits = swizzle == 0 ? 0 : static_cast<uint32_t>(width / 16 - 1);
  address ^= (address >> 7 & bits) << 4;
  if (address < kFirstAddress || address - kFirstAddress + kChunk > bytes_) {
    fail("a descriptor describes memory outside of dynamic shared memory");
  }
  return shared_ + (address - kFirstAddress);
}

void GroupProducts::require_fenced(const std::byte* chunk) const {
  note_read(chunk);
  if (unpublished_[static_cast<size_t>(chunk - shared_) / kChunk] == 0) return;
  fail("a product of shared memory without a fence of the async proxy and a barrier after a write");
}

size_t GroupProducts::accumulator_of(Warp& warp, const GroupProduct* const* lanes) const {
  for (size_t i = 0; i < warp.accumulators.size(); ++i) {
    const Accumulator& known = warp.accumulators[i];
    if (known.products == 0 || known.c[0][0] != lanes[0]->c[0]) continue;
    if (known.n != lanes[0]->n) fail("a product of another shape has accumulators in flight");
    return i;
  }
  Accumulator made{};
  made.n = lanes[0]->n;
  made.values.resize(static_cast<size_t>(kRows * made.n));
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 2; ++i) {
      float* const c = made.c[lane][i] = lanes[lane]->c[i];
      for (int j = 0; j < made.n / 4; ++j) {
        made.values[static_cast<size_t>(place_of(lane, i, j, made.n))] = c[j];
        c[j] = std::bit_cast<float>(~0u);
      }
    }
  }
  for (size_t i = 0; i < warp.accumulators.size(); ++i) {
    if (warp.accumulators[i].products > 0) continue;
    warp.accumulators[i] = std::move(made);
    return i;
  }
  warp.accumulators.push_back(std::move(made));
  return warp.accumulators.size() - 1;
}

void GroupProducts::start(unsigned warp_index, const GroupProduct* const* lanes, const Site& site) {
  Warp& warp = warps_[warp_index];
  if (warps_.size() % kWarps != 0) fail("a product needs warpgroups of 128 threads");
  const GroupProduct& mine = *lanes[0];
  for (int lane = 1; lane < 32; ++lane) {
    const GroupProduct& other = *lanes[lane];
    if (other.n != mine.n || other.a_in_registers != mine.a_in_registers ||
        other.a_descriptor != mine.a_descriptor || other.b_descriptor != mine.b_descriptor ||
        other.b_transposed != mine.b_transposed || other.adds != mine.adds) {
      fail("lanes start different products");
    }
  }
  if (!warp.fenced) fail("a product without wgmma_fence() since the last wait");
  // The same as other warps of the group.
  auto& started = started_[warp_index / kWarps];
  const Start start{site, mine.a_descriptor, mine.b_descriptor, mine.n, mine.b_transposed};
  if (warp.started == started.size()) {
    started.push_back(start);
  } else if (const Start& of = started[warp.started];
             of.site.line() != site.line() || of.a_descriptor != start.a_descriptor ||
             of.b_descriptor != start.b_descriptor || of.n != start.n ||
             of.b_transposed != start.b_transposed) {
    fail("warps of a warpgroup start different products");
  }
  ++warp.started;

  for (int column = 0; column < mine.n; column += mine.b_transposed ? 8 : 1) {
    for (int k = 0; k < kDepth; k += mine.b_transposed ? 1 : 8) {
      require_fenced(chunk(mine.b_descriptor, mine.b_transposed, column, k));
    }
  }
  const int first_row = kRows * static_cast<int>(warp_index % kWarps);
  for (int row = 0; !mine.a_in_registers && row < kRows; ++row) {
    for (int k = 0; k < kDepth; k += 8) {
      require_fenced(chunk(mine.a_descriptor, false, first_row + row, k));
    }
  }
  Pending product{accumulator_of(warp, lanes), {}, mine, warp.groups};
  for (int lane = 0; lane < 32; ++lane) {
    std::memcpy(product.a[lane], lanes[lane]->a, sizeof(product.a[lane]));
  }
  ++warp.accumulators[product.accumulator].products;
  warp.pending.push_back(product);
}

void GroupProducts::commit(unsigned warp) { ++warps_[warp].groups; }

void GroupProducts::compute(unsigned warp, const Pending& product, float* c) const {
  const GroupProduct& of = product.of_warp;
  const int n = of.n;
  float a[kRows][kDepth], b[kDepth][64];
  if (of.a_in_registers) {
    unpack(product.a, a);
  } else {
    const int first_row = kRows * static_cast<int>(warp % kWarps);
    for (int row = 0; row < kRows; ++row) {
      for (int k = 0; k < kDepth; k += 8) {
        uint16_t elements[8];
        std::memcpy(elements, chunk(of.a_descriptor, false, first_row + row, k), kChunk);
        for (int i = 0; i < 8; ++i) a[row][k + i] = bf16(elements[i]);
      }
    }
  }
  for (int column = 0; column < n; column += of.b_transposed ? 8 : 1) {
    for (int k = 0; k < kDepth; k += of.b_transposed ? 1 : 8) {
      uint16_t elements[8];
      std::memcpy(elements, chunk(of.b_descriptor, of.b_transposed, column, k), kChunk);
      for (int i = 0; i < 8; ++i) {
        (of.b_transposed ? b[k][column + i] : b[k + i][column]) = bf16(elements[i]);
      }
    }
  }
  if (!of.adds) std::fill(c, c + kRows * n, 0.0f);
  for (int row = 0; row < kRows; ++row) {
    for (int k = 0; k < kDepth; ++k) {
      for (int column = 0; column < n; ++column) c[row * n + column] += a[row][k] * b[k][column];
    }
  }
}

void GroupProducts::wait(unsigned warp_index, int pending) {
  Warp& warp = warps_[warp_index];
  warp.fenced = false;
  const auto is_due = [&](const Pending& product) { return product.group < warp.groups - pending; };
  const auto first_pending = std::find_if_not(warp.pending.begin(), warp.pending.end(), is_due);
  for (auto product = warp.pending.begin(); product != first_pending; ++product) {
    Accumulator& accumulator = warp.accumulators[product->accumulator];
    compute(warp_index, *product, accumulator.values.data());
    if (--accumulator.products > 0) continue;
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < accumulator.n / 4; ++j) {
          float& c = accumulator.c[lane][i][j];
          if (std::bit_cast<uint32_t>(c) != ~0u) fail("an accumulator in flight was changed");
          c = accumulator.values[static_cast<size_t>(place_of(lane, i, j, accumulator.n))];
        }
      }
    }
  }
  warp.pending.erase(warp.pending.begin(), first_pending);
}

// --- called by the running thread, once for each lane

namespace {

unsigned warp_of_thread() { return the_block().thread() / 32; }

struct GroupAction {
  const GroupProduct* product;
  int pending;
  const Site* site;
};
void start_of_warp(GroupAction* const* lanes) {
  const GroupProduct* products[32];
  for (int lane = 0; lane < 32; ++lane) products[lane] = lanes[lane]->product;
  the_block().products().start(warp_of_thread(), products, *lanes[0]->site);
}
void fence_of_warp(GroupAction* const*) { the_block().products().fence(warp_of_thread()); }
void commit_of_warp(GroupAction* const*) { the_block().products().commit(warp_of_thread()); }
void wait_of_warp(GroupAction* const* lanes) {
  the_block().products().wait(warp_of_thread(), lanes[0]->pending);
}

}  // namespace

uint32_t shared_address(const void* place) { return the_block().products().address_of(place); }
void wrote_shared(const void* to, size_t bytes) {
  the_block().products().wrote(the_block().thread(), to, bytes);
}
void fence_async_proxy() { the_block().products().fence_proxy(the_block().thread()); }

void start_product(const GroupProduct& product, const Site& site) {
  GroupAction action{&product, 0, &site};
  together<start_of_warp>(action, site);
}
void fence_products(const Site& site) {
  GroupAction action{nullptr, 0, &site};
  together<fence_of_warp>(action, site);
}
void commit_products(const Site& site) {
  GroupAction action{nullptr, 0, &site};
  together<commit_of_warp>(action, site);
}
void wait_for_products(int pending, const Site& site) {
  GroupAction action{nullptr, pending, &site};
  together<wait_of_warp>(action, site);
}

}  // namespace emulator
