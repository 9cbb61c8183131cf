#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tests/cuda/ptx/module.h"

namespace tessera::ptx {

inline constexpr int kLanes = 32;

/// 32 threads in lockstep: their registers and shared memory. Errors throw std::runtime_error.
class Warp {
 public:
  /// A kernel accesses only `arguments` and `shared_bytes` of shared memory.
  Warp(const Entry& entry, std::vector<std::span<std::byte>> arguments, size_t shared_bytes);

  /// Runs the kernel in blocks of one warp. Throws if a register or shared memory is read before it
  /// is written, and for an instruction that is not known.
  void run(unsigned blocks);

  // --- for instructions ---
  [[noreturn]] void fail(const std::string& why) const;

  uint64_t get(const Operand& operand, int lane) const;
  void set(const Operand& operand, int lane, uint64_t value);
  uint64_t argument(const Operand& parameter) const;

  enum class Space : uint8_t { global, shared };
  void load(Space space, const Operand& address, int lane, size_t bytes, void* to);
  void store(Space space, const Operand& address, int lane, size_t bytes, const void* from);

  /// The copy happens, and shared memory is readable, when the lane waits.
  void start_copy(const Operand& to, const Operand& from, int lane, size_t bytes, size_t read);
  void finish_copies(int lane);

 private:
  enum class State : uint8_t { unwritten, copied_to, written };
  struct Copy {
    uint64_t to, from;
    size_t bytes, read;
  };

  std::byte* locate(Space space, uint64_t address, size_t bytes);
  const std::byte* readable(Space space, uint64_t address, size_t bytes);
  uint64_t address_of(const Operand& address, int lane) const;
  void set_shared(uint64_t address, size_t bytes, State state);

  const Entry& entry_;
  const Instruction* current_ = nullptr;
  std::vector<std::span<std::byte>> arguments_;
  std::vector<uint64_t> registers_;  // (registers, lanes)
  std::vector<uint32_t> written_;    // a bit for each lane
  std::vector<std::byte> shared_;
  std::vector<State> shared_state_;
  std::vector<Copy> copies_[kLanes];
};

}  // namespace tessera::ptx
