#include "tests/cuda/ptx/block.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "tests/cuda/ptx/instructions.h"

namespace tessera::ptx {

Block::Block(const Entry& entry, std::vector<std::span<std::byte>> arguments, size_t shared_bytes,
             int threads)
    : entry_(entry),
      arguments_(std::move(arguments)),
      threads_(threads),
      registers_(entry.registers.size() * static_cast<size_t>(threads)),
      written_(registers_.size()),
      changed_(registers_.size()),
      in_products_(registers_.size()),
      shared_(shared_bytes),
      shared_state_(shared_bytes),
      writer_(shared_bytes),
      copies_(static_cast<size_t>(threads)),
      warps_(static_cast<size_t>(threads / kLanes)) {}

void Block::run(unsigned blocks) {
  std::vector<const Rule*> rules;
  for (const Instruction& instruction : entry_.instructions) {
    current_ = &instruction;
    rules.push_back(find_rule(instruction, entry_));
    if (rules.back() == nullptr) fail("unknown instruction " + instruction.opcode);
    if (auto error = operand_error(*rules.back(), instruction, entry_); !error.empty()) fail(error);
  }
  for (unsigned block = 0; block < blocks; ++block) {
    std::fill(written_.begin(), written_.end(), false);
    std::fill(changed_.begin(), changed_.end(), true);
    std::fill(shared_state_.begin(), shared_state_.end(), State::unwritten);
    for (size_t i = 0; i < entry_.registers.size(); ++i) {
      const std::string& name = entry_.registers[i].name;
      const bool thread = name == "%tid.x";
      if (!thread && name != "%ctaid.x" && name != "%ntid.x") continue;
      const auto count = static_cast<size_t>(threads_);
      for (size_t lane = 0; lane < count; ++lane) {
        registers_[i * count + lane] = thread ? lane : name == "%ctaid.x" ? block : count;
        written_[i * count + lane] = true;
      }
    }
    for (size_t i = 0; i < rules.size(); ++i) {
      current_ = &entry_.instructions[i];
      const Operand* const operands = current_->operands.data();
      if (rules[i]->warp != nullptr) {
        for (int first = 0; first < threads_; first += kLanes) {
          rules[i]->warp(*this, operands, first);
        }
      } else {
        for (int lane = 0; lane < threads_; ++lane) rules[i]->lane(*this, operands, lane);
      }
    }
    for (const Warp& warp : warps_) {
      if (!warp.pending.empty()) fail("the kernel ends before it waits for products");
    }
  }
}

void Block::fail(const std::string& why) const {
  throw std::runtime_error(entry_.name + ": \"" + current_->text + "\": " + why);
}

uint64_t Block::get(const Operand& operand, int lane) const {
  if (operand.kind == Operand::Kind::constant) return static_cast<uint64_t>(operand.value);
  const size_t at = place(operand, lane);
  if (!written_[at]) {
    const std::string& name = entry_.registers[static_cast<size_t>(operand.reg)].name;
    fail("reads " + name + ", which has no value");
  }
  return registers_[at];
}

void Block::set(const Operand& operand, int lane, uint64_t value) {
  if (operand.kind != Operand::Kind::reg) fail("the destination is not a register");
  const Register& reg = entry_.registers[static_cast<size_t>(operand.reg)];
  if (reg.type.bits < 64) value &= (uint64_t{1} << reg.type.bits) - 1;
  const size_t at = place(operand, lane);
  if (in_products_[at] > 0) fail("writes " + reg.name + ", which a pending product has");
  registers_[at] = value;
  written_[at] = changed_[at] = true;
}

size_t Block::place(const Operand& operand, int lane) const {
  return static_cast<size_t>(operand.reg) * static_cast<size_t>(threads_) +
         static_cast<size_t>(lane);
}

uint64_t Block::argument(const Operand& parameter) const {
  const auto index = static_cast<size_t>(parameter.value);
  return reinterpret_cast<uintptr_t>(arguments_.at(index).data());
}

uint64_t Block::address_of(const Operand& address, int lane) const {
  const Operand base{Operand::Kind::reg, address.reg, 0};
  return static_cast<uint64_t>(address.value) + (address.reg < 0 ? 0 : get(base, lane));
}

std::byte* Block::locate(Space space, uint64_t address, size_t bytes) {
  if (address % bytes != 0) fail("an address is not aligned to " + std::to_string(bytes));
  const auto find = [&](std::span<std::byte> memory, uint64_t first) -> std::byte* {
    const uint64_t offset = address - first;
    return offset < memory.size() && bytes <= memory.size() - offset ? &memory[offset] : nullptr;
  };
  if (space == Space::shared) {
    if (std::byte* const found = find(shared_, kDynamicShared)) return found;
  } else {
    for (const auto& argument : arguments_) {
      const auto first = reinterpret_cast<uintptr_t>(argument.data());
      if (std::byte* const found = find(argument, first)) return found;
    }
  }
  fail("an address is outside of memory");
}

const std::byte* Block::readable(Space space, uint64_t address, size_t bytes) {
  const std::byte* const data = locate(space, address, bytes);
  for (size_t i = 0; space == Space::shared && i < bytes; ++i) {
    const State state = shared_state_[address - kDynamicShared + i];
    if (state == State::unwritten) fail("reads shared memory that was not written");
    if (state == State::copied_to) fail("reads shared memory before waiting for a copy");
  }
  return data;
}

void Block::set_shared(uint64_t address, size_t bytes, State state, int lane) {
  for (size_t i = address - kDynamicShared, end = i + bytes; i < end; ++i) {
    shared_state_[i] = state;
    writer_[i] = lane;
  }
}

void Block::load(Space space, const Operand& address, int lane, size_t bytes, void* to) {
  std::memcpy(to, readable(space, address_of(address, lane), bytes), bytes);
}

void Block::store(Space space, const Operand& address, int lane, size_t bytes, const void* from) {
  const uint64_t to = address_of(address, lane);
  std::memcpy(locate(space, to, bytes), from, bytes);
  if (space == Space::shared) set_shared(to, bytes, State::written, lane);
}

void Block::start_copy(const Operand& to, const Operand& from, int lane, size_t bytes,
                       size_t read) {
  const Copy copy{address_of(to, lane), address_of(from, lane), bytes, read};
  locate(Space::shared, copy.to, bytes);
  if (copy.from % bytes != 0) fail("the source is not aligned to " + std::to_string(bytes));
  set_shared(copy.to, bytes, State::copied_to, lane);
  copies_[static_cast<size_t>(lane)].push_back(copy);
}

void Block::finish_copies(int lane) {
  auto& copies = copies_[static_cast<size_t>(lane)];
  for (const Copy& copy : copies) {
    std::byte* const to = locate(Space::shared, copy.to, copy.bytes);
    std::memset(to, 0, copy.bytes);
    if (copy.read > 0) std::memcpy(to, locate(Space::global, copy.from, copy.bytes), copy.read);
    set_shared(copy.to, copy.bytes, State::written, lane);
  }
  copies.clear();
}

void Block::barrier() {
  for (State& state : shared_state_) {
    if (state == State::fenced) state = State::for_products;
  }
}

void Block::fence_async_proxy(int lane) {
  for (size_t i = 0; i < shared_.size(); ++i) {
    if (writer_[i] == lane && shared_state_[i] == State::written) {
      shared_state_[i] = State::fenced;
    }
  }
}

void Block::fence_registers(int first) {
  for (size_t i = 0; i < changed_.size(); ++i) {
    const int lane = static_cast<int>(i % static_cast<size_t>(threads_));
    if (lane / kLanes == first / kLanes) changed_[i] = false;
  }
}

void Block::start_product(int first, std::span<const Operand> accumulators,
                          std::span<const Operand> operands, bool reads_accumulators,
                          std::function<void()> compute) {
  if (threads_ % (4 * kLanes) != 0) fail("the block does not consist of warpgroups");
  Warp& warp = warps_[static_cast<size_t>(first / kLanes)];
  Product product{{}, {}, std::move(compute), warp.groups};
  for (int lane = first; lane < first + kLanes; ++lane) {
    for (const Operand& accumulator : accumulators) {
      const size_t at = place(accumulator, lane);
      const bool follows = in_products_[at] > 0;
      if (!follows && changed_[at]) fail("needs wgmma.fence after an accumulator was written");
      if (!follows && reads_accumulators) get(accumulator, lane);
      product.accumulators.push_back(at);
      written_[at] = false;
    }
    for (const Operand& operand : operands) {
      get(operand, lane);
      if (changed_[place(operand, lane)]) fail("needs wgmma.fence after an operand was written");
      product.registers.push_back(place(operand, lane));
    }
  }
  for (const auto* places : {&product.accumulators, &product.registers}) {
    for (const size_t at : *places) ++in_products_[at];
  }
  warp.pending.push_back(std::move(product));
}

uint64_t Block::due(const Operand& accumulator, int lane) const {
  return registers_[place(accumulator, lane)];
}
void Block::replace(const Operand& accumulator, int lane, uint64_t value) {
  registers_[place(accumulator, lane)] = value;
}

uint16_t Block::product_operand(uint64_t address) {
  uint16_t value = 0;
  std::memcpy(&value, locate(Space::shared, address, sizeof(value)), sizeof(value));
  for (size_t i = address - kDynamicShared, end = i + sizeof(value); i < end; ++i) {
    if (shared_state_[i] != State::for_products) {
      fail("reads shared memory without a proxy fence and a barrier after the write");
    }
  }
  return value;
}

void Block::commit(int first) { ++warps_[static_cast<size_t>(first / kLanes)].groups; }

void Block::wait(int first, int pending) {
  Warp& warp = warps_[static_cast<size_t>(first / kLanes)];
  while (!warp.pending.empty() && warp.pending.front().group < warp.groups - pending) {
    const Product product = std::move(warp.pending.front());
    warp.pending.erase(warp.pending.begin());
    product.compute();
    for (const size_t at : product.registers) --in_products_[at];
    for (const size_t at : product.accumulators) {
      if (--in_products_[at] == 0) written_[at] = true;
    }
  }
}

}  // namespace tessera::ptx
