#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <string>

/// What stands behind tests/emulator/include/cuda_runtime.h: how an emulated GPU runs a kernel.
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

/// Whether a GPU would take it.
bool can_launch(const Launch& launch);

/// Runs a grid, one block after the other, on the calling thread. Device memory can be touched
/// meanwhile. Grids of several threads of the host take turns.
void run_grid(const Launch& launch, const std::function<void()>& thread);

/// Ends the process with a message that names the kernel, block and thread.
[[noreturn]] void fail(const std::string& what);

/// The same of what the host calls, as "cudaMalloc".
[[noreturn]] void fail_call(const char* call, const std::string& what);

struct Stream;
struct Event;
struct Graph;
struct GraphExec;

/// Does `work` now or, with TESSERA_EMULATOR_LAZY=1, when the host or another stream first waits
/// for it; keeps it for a graph while the stream is captured.
void enqueue(Stream* stream, std::function<void()> work);

// --- what a running kernel asks for ---

/// Bytes of the launch's dynamic shared memory.
void* dynamic_shared();

int lane();

/// Where in the source a kernel stands.
using Site = std::source_location;

/// All threads of the block, at one place of the source; fails if any of them never comes.
void block_barrier(const Site& site);

enum class Exchange : uint8_t { barrier, shuffle, vote, together };

/// What a lane brings to an exchange, and what it takes away.
struct Parcel {
  Exchange kind = Exchange::barrier;
  int size = 0;                          ///< bytes of `value`
  int source = 0;                        ///< shuffle: the lane whose value it gets
  unsigned mask = 0;                     ///< of the lanes that take part
  alignas(16) std::byte value[16] = {};  ///< shuffle: given, then got; vote: 0 or 1, then ballot
  void (*work)(void* const* lanes) = nullptr;  ///< together: called once with all lanes' `mine`
  void* mine = nullptr;
};

/// All lanes of the parcel's mask, at one place of the source; fails if any of them never comes.
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

/// What a warp does as one, as its tensor cores do: when all 32 lanes are here, kWork gets what
/// each of them brings, to read and to write.
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

/// What a lane brings to PTX's mma.m16n8k16 of bf16, C += A B, where C becomes the sum.
struct MmaOperands {
  float c[4];
  uint32_t a[4], b[2];
};
void mma_m16n8k16(MmaOperands* const* lanes);

/// What a lane brings to PTX's ldmatrix of four matrices of 16 bits, and gets.
struct MatrixRow {
  const void* row;
  uint32_t registers[4];
};
template <bool kTransposed>
void ldmatrix(MatrixRow* const* lanes);

}  // namespace emulator
