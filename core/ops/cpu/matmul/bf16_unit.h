#pragma once

#include <cstdint>

namespace tessera::cpu {

/// What multiplies bf16 numbers.
enum class Bf16Unit : uint8_t { none, avx512, amx };

/// The best that this processor has and this process may use. ONEDNN_MAX_CPU_ISA in the environment
/// limits it as it limits oneDNN.
Bf16Unit bf16_unit();

}  // namespace tessera::cpu
