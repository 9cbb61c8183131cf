#pragma once

#include <cstddef>

namespace emulator {

/// How an address relates to the emulated GPU's memory.
struct DeviceAddress {
  bool known = false;        ///< in a block, or in the pages around it
  std::ptrdiff_t place = 0;  ///< offset from the block's first byte
  size_t bytes = 0;          ///< size of the block
};

/// Called by the fault handler: does not wait.
DeviceAddress find_device_address(const void* address);

}  // namespace emulator
