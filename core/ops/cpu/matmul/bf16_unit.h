#pragma once

#include <cstdint>

namespace tessera::cpu {

/// The unit that multiplies bf16 numbers.
enum class Bf16Unit : uint8_t { none, avx512, amx };

/// The best unit that this processor has and this process may use. The environment variable
/// ONEDNN_MAX_CPU_ISA limits it as it limits oneDNN.
Bf16Unit bf16_unit();

}  // namespace tessera::cpu
