#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "tests/cuda/ptx/module.h"

namespace tessera::ptx {

inline constexpr int kLanes = 32;

/// The threads of a block in lockstep: their registers and shared memory. Errors throw
/// std::runtime_error. `lane` counts all threads of the block.
class Block {
 public:
  /// A kernel accesses only `arguments` and `shared_bytes` of shared memory.
  Block(const Entry& entry, std::vector<std::span<std::byte>> arguments, size_t shared_bytes,
        int threads);

  /// Runs the kernel. Throws if a register or shared memory is read before it is written, and for
  /// an instruction that is not known.
  void run(unsigned blocks);

  // --- for instructions ---
  [[noreturn]] void fail(const std::string& why) const;

  uint64_t get(const Operand& operand, int lane) const;
  void set(const Operand& operand, int lane, uint64_t value);
  uint64_t argument(const Operand& parameter) const;

  enum class Space : uint8_t { global, shared };
  void load(Space space, const Operand& address, int lane, size_t bytes, void* to);
  void store(Space space, const Operand& address, int lane, size_t bytes, const void* from);
  void barrier();

  /// The copy happens, and shared memory is readable, when the lane waits.
  void start_copy(const Operand& to, const Operand& from, int lane, size_t bytes, size_t read);
  void finish_copies(int lane);

  // Products of the warpgroup, a warp's part at a time. `first` is the warp's first lane.

  /// Starts a product that replaces `accumulators` and also reads `operands`, both registers of
  /// each lane. `compute` runs when it is due. Until then the accumulators have no value, except
  /// for the next product, and none of the registers may be written.
  void start_product(int first, std::span<const Operand> accumulators,
                     std::span<const Operand> operands, bool reads_accumulators,
                     std::function<void()> compute);
  /// The accumulator of a product that is due.
  uint64_t due(const Operand& accumulator, int lane) const;
  void replace(const Operand& accumulator, int lane, uint64_t value);
  /// 16 bits at an address, which the lanes must have made visible to products.
  uint16_t product_operand(uint64_t address);
  void fence_registers(int first);
  void fence_async_proxy(int lane);
  void commit(int first);
  void wait(int first, int pending);

 private:
  /// Of a byte: what was written, by its lane's fence, and by the next barrier is for products.
  enum class State : uint8_t { unwritten, copied_to, written, fenced, for_products };
  struct Copy {
    uint64_t to, from;
    size_t bytes, read;
  };
  struct Product {
    std::vector<size_t> accumulators, registers;  ///< places in registers_
    std::function<void()> compute;
    int group;
  };
  struct Warp {
    std::vector<Product> pending;
    int groups = 0;
  };

  size_t place(const Operand& operand, int lane) const;
  std::byte* locate(Space space, uint64_t address, size_t bytes);
  const std::byte* readable(Space space, uint64_t address, size_t bytes);
  uint64_t address_of(const Operand& address, int lane) const;
  void set_shared(uint64_t address, size_t bytes, State state, int lane);

  const Entry& entry_;
  const Instruction* current_ = nullptr;
  std::vector<std::span<std::byte>> arguments_;
  int threads_;
  std::vector<uint64_t> registers_;  // (registers, threads), and of each:
  std::vector<bool> written_;        // whether it has a value
  std::vector<bool> changed_;        // since the last wgmma.fence
  std::vector<int> in_products_;     // how many pending ones
  std::vector<std::byte> shared_;
  std::vector<State> shared_state_;
  std::vector<int> writer_;  // lane of each byte
  std::vector<std::vector<Copy>> copies_;
  std::vector<Warp> warps_;
};

}  // namespace tessera::ptx
