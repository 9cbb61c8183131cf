#pragma once

#include <cstddef>

namespace emulator {

/// What an address is to the emulated GPU's memory.
struct DeviceAddress {
  bool known = false;        ///< in a block, or in the pages around it
  std::ptrdiff_t place = 0;  ///< bytes from the block's first
  size_t bytes = 0;          ///< of the block
};

/// For the handler of faults: waits for nothing.
DeviceAddress find_device_address(const void* address);

}  // namespace emulator
