#include "tests/cuda/ptx/warp.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "tests/cuda/ptx/instructions.h"

namespace tessera::ptx {

Warp::Warp(const Entry& entry, std::vector<std::span<std::byte>> arguments, size_t shared_bytes)
    : entry_(entry),
      arguments_(std::move(arguments)),
      registers_(entry.registers.size() * kLanes),
      written_(entry.registers.size()),
      shared_(shared_bytes),
      shared_state_(shared_bytes) {}

void Warp::run(unsigned blocks) {
  std::vector<const Rule*> rules;
  for (const Instruction& instruction : entry_.instructions) {
    current_ = &instruction;
    rules.push_back(find_rule(instruction.opcode));
    if (rules.back() == nullptr) fail("unknown instruction " + instruction.opcode);
    if (auto error = operand_error(*rules.back(), instruction, entry_); !error.empty()) fail(error);
  }
  for (unsigned block = 0; block < blocks; ++block) {
    std::fill(written_.begin(), written_.end(), 0);
    std::fill(shared_state_.begin(), shared_state_.end(), State::unwritten);
    for (size_t i = 0; i < entry_.registers.size(); ++i) {
      const std::string& name = entry_.registers[i].name;
      const bool thread = name == "%tid.x";
      if (!thread && name != "%ctaid.x" && name != "%ntid.x") continue;
      for (int lane = 0; lane < kLanes; ++lane) {
        registers_[i * kLanes + static_cast<size_t>(lane)] = thread ? static_cast<unsigned>(lane)
                                                             : name == "%ctaid.x" ? block
                                                                                  : kLanes;
      }
      written_[i] = ~0u;
    }
    for (size_t i = 0; i < rules.size(); ++i) {
      current_ = &entry_.instructions[i];
      const Operand* const operands = current_->operands.data();
      if (rules[i]->warp != nullptr) {
        rules[i]->warp(*this, operands);
      } else {
        for (int lane = 0; lane < kLanes; ++lane) rules[i]->lane(*this, operands, lane);
      }
    }
  }
}

void Warp::fail(const std::string& why) const {
  throw std::runtime_error(entry_.name + ": \"" + current_->text + "\": " + why);
}

uint64_t Warp::get(const Operand& operand, int lane) const {
  if (operand.kind == Operand::Kind::constant) return static_cast<uint64_t>(operand.value);
  const auto index = static_cast<size_t>(operand.reg);
  if ((written_[index] >> lane & 1u) == 0) {
    fail("reads " + entry_.registers[index].name + ", which has no value");
  }
  return registers_[index * kLanes + static_cast<size_t>(lane)];
}

void Warp::set(const Operand& operand, int lane, uint64_t value) {
  if (operand.kind != Operand::Kind::reg) fail("the destination is not a register");
  const auto index = static_cast<size_t>(operand.reg);
  const int bits = entry_.registers[index].type.bits;
  if (bits < 64) value &= (uint64_t{1} << bits) - 1;
  registers_[index * kLanes + static_cast<size_t>(lane)] = value;
  written_[index] |= 1u << lane;
}

uint64_t Warp::argument(const Operand& parameter) const {
  const auto index = static_cast<size_t>(parameter.value);
  return reinterpret_cast<uintptr_t>(arguments_.at(index).data());
}

uint64_t Warp::address_of(const Operand& address, int lane) const {
  const Operand base{Operand::Kind::reg, address.reg, 0};
  return static_cast<uint64_t>(address.value) + (address.reg < 0 ? 0 : get(base, lane));
}

std::byte* Warp::locate(Space space, uint64_t address, size_t bytes) {
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

const std::byte* Warp::readable(Space space, uint64_t address, size_t bytes) {
  const std::byte* const data = locate(space, address, bytes);
  for (size_t i = 0; space == Space::shared && i < bytes; ++i) {
    const State state = shared_state_[address - kDynamicShared + i];
    if (state == State::unwritten) fail("reads shared memory that was not written");
    if (state == State::copied_to) fail("reads shared memory before waiting for a copy");
  }
  return data;
}

void Warp::set_shared(uint64_t address, size_t bytes, State state) {
  for (size_t i = 0; i < bytes; ++i) shared_state_[address - kDynamicShared + i] = state;
}

void Warp::load(Space space, const Operand& address, int lane, size_t bytes, void* to) {
  std::memcpy(to, readable(space, address_of(address, lane), bytes), bytes);
}

void Warp::store(Space space, const Operand& address, int lane, size_t bytes, const void* from) {
  const uint64_t to = address_of(address, lane);
  std::memcpy(locate(space, to, bytes), from, bytes);
  if (space == Space::shared) set_shared(to, bytes, State::written);
}

void Warp::start_copy(const Operand& to, const Operand& from, int lane, size_t bytes, size_t read) {
  const Copy copy{address_of(to, lane), address_of(from, lane), bytes, read};
  locate(Space::shared, copy.to, bytes);
  if (copy.from % bytes != 0) fail("the source is not aligned to " + std::to_string(bytes));
  set_shared(copy.to, bytes, State::copied_to);
  copies_[lane].push_back(copy);
}

void Warp::finish_copies(int lane) {
  for (const Copy& copy : copies_[lane]) {
    std::byte* const to = locate(Space::shared, copy.to, copy.bytes);
    std::memset(to, 0, copy.bytes);
    if (copy.read > 0) std::memcpy(to, locate(Space::global, copy.from, copy.bytes), copy.read);
    set_shared(copy.to, copy.bytes, State::written);
  }
  copies_[lane].clear();
}

}  // namespace tessera::ptx
