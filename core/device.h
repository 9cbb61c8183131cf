#pragma once

#include <cstdint>
#include <string>

namespace tessera {

#ifdef TESSERA_HAS_CUDA
inline constexpr bool kHasCuda = true;
#else
inline constexpr bool kHasCuda = false;
#endif

/// The memory that holds a tensor's elements. A `meta` tensor has a shape and no data; ops only
/// check their arguments on it. A step on the meta device is the dry run that measures the memory
/// plan, so plan and run cannot differ.
enum class DeviceType : uint8_t { cpu, meta, cuda };

struct Device {
  DeviceType type = DeviceType::cpu;
  int8_t index = 0;

  bool is_cpu() const { return type == DeviceType::cpu; }
  bool is_meta() const { return type == DeviceType::meta; }
  bool is_cuda() const { return type == DeviceType::cuda; }
  bool operator==(const Device&) const = default;
};

inline constexpr Device kCpu{DeviceType::cpu, 0};
inline constexpr Device kMeta{DeviceType::meta, 0};

std::string to_string(Device device);

}  // namespace tessera
