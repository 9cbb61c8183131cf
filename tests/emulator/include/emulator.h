#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <string>

/// The implementation of tests/emulator/include/cuda_runtime.h: how the emulated GPU runs kernels.
namespace emulator {

/// Three dimensions of a grid or block.
struct Shape {
  unsigned x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t{x} * y * z; }
};

struct Launch {
  const char* name = nullptr;  ///< of the kernel, for messages
  Shape grid, block;
  size_t shared_bytes = 0;
};

/// The most shared memory of a block, as on sm_90.
inline constexpr int kBlockSharedBytes = 227 << 10;

/// Returns whether a GPU would accept the launch.
bool can_launch(const Launch& launch);

/// Runs a grid on the calling thread, one block after the other, with device memory accessible.
/// Grids of several host threads take turns.
void run_grid(const Launch& launch, const std::function<void()>& thread);

/// Ends the process with a message that names the kernel, block and thread.
[[noreturn]] void fail(const std::string& what);

/// Does the same for a host call, such as "cudaMalloc".
[[noreturn]] void fail_call(const char* call, const std::string& what);

struct Stream;
struct Event;
struct Graph;
struct GraphExec;

/// Runs `work` now or, with TESSERA_EMULATOR_LAZY=1, when the host or another stream first waits
/// for it. Adds it to a graph if the stream is being captured.
void enqueue(Stream* stream, std::function<void()> work);

/// Bytes that memsets of the process have set to zero on its GPUs so far.
uint64_t zeroed_bytes();

// --- calls of a running kernel ---

/// The launch's dynamic shared memory.
void* dynamic_shared();

int lane();

/// A kernel's position in the source.
using Site = std::source_location;

/// Waits for all threads of the block at one position in the source; fails if any of them never
/// arrives.
void block_barrier(const Site& site);

enum class Exchange : uint8_t { barrier, shuffle, vote, together };

/// A lane's input to an exchange, and its output.
struct Parcel {
  Exchange kind = Exchange::barrier;
  int size = 0;                          ///< of `value` in bytes
  int source = 0;                        ///< shuffle: the lane to read from
  unsigned mask = 0;                     ///< participating lanes
  alignas(16) std::byte value[16] = {};  ///< shuffle: input, then output; vote: 0 or 1, then ballot
  void (*work)(void* const* lanes) = nullptr;  ///< together: called once with `mine` of all lanes
  void* mine = nullptr;
};

/// Waits for all lanes of the parcel's mask at one position in the source; fails if any of them
/// never arrives.
void warp_exchange(Parcel& parcel, const Site& site);

template <typename T>
T shuffle(unsigned mask, T value, int source, const Site& site) {
  static_assert(sizeof(T) <= 16);
  Parcel parcel{Exchange::shuffle, sizeof(T), source, mask, {}};
  std::memcpy(parcel.value, &value, sizeof(T));
  warp_exchange(parcel, site);
  std::memcpy(&value, parcel.value, sizeof(T));
  return value;
}

/// An operation of a whole warp, such as those of tensor cores: once all 32 lanes have arrived,
/// calls kWork with the operands of all lanes, for reading and writing.
template <auto kWork, typename T>
void together(T& mine, const Site& site) {
  Parcel parcel{Exchange::together, sizeof(T), 0, 0xffffffffu, {}};
  parcel.mine = &mine;
  parcel.work = [](void* const* lanes) {
    T* all[32];
    for (int lane = 0; lane < 32; ++lane) all[lane] = static_cast<T*>(lanes[lane]);
    kWork(all);
  };
  warp_exchange(parcel, site);
}

/// A lane's operands of PTX's mma.m16n8k16 for bf16, C += A B. C is replaced by the sum.
struct MmaOperands {
  float c[4];
  uint32_t a[4], b[2];
};
void mma_m16n8k16(MmaOperands* const* lanes);

/// A lane's input and output of PTX's ldmatrix for four matrices of 16-bit elements.
struct MatrixRow {
  uint16_t row[8];  ///< read by the lane itself, when it arrives
  uint32_t registers[4];
};
template <bool kTransposed>
void ldmatrix(MatrixRow* const* lanes);

/// Reads a row of shared memory. Fails if it is not aligned to 16 bytes.
inline MatrixRow matrix_row(const void* address) {
  if (reinterpret_cast<uintptr_t>(address) % 16 != 0) {
    fail("ldmatrix of a row that is not aligned to 16 bytes");
  }
  MatrixRow row{};
  std::memcpy(row.row, address, sizeof(row.row));
  return row;
}

// --- products of a warpgroup (core/cuda/wgmma.h) ---

/// The address in the shared window of a place in the launch's dynamic shared memory.
uint32_t shared_address(const void* place);

/// The running thread wrote to dynamic shared memory, which products must not read before its
/// fence. Ignores other memory.
void wrote_shared(const void* to, size_t bytes);
void fence_async_proxy();

/// A lane's operands of a product of 64 rows.
struct GroupProduct {
  float* c[2];  ///< n / 4 accumulators of each of the lane's two rows
  int n;
  bool a_in_registers;
  uint32_t a[4];
  uint64_t a_descriptor, b_descriptor;
  bool b_transposed, adds;
};
/// Moves the accumulators into the product; they are NaN until a wait completes it. Products of the
/// same accumulators follow each other.
void start_product(const GroupProduct& product, const Site& site);
void fence_products(const Site& site);
void commit_products(const Site& site);
/// Completes all groups but the last `pending`: only now they read shared memory.
void wait_for_products(int pending, const Site& site);

}  // namespace emulator
