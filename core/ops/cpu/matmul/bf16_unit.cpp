#include "core/ops/cpu/matmul/bf16_unit.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <string>

namespace tessera::cpu {
namespace {

/// Linux grants a process the AMX tiles on request.
bool amx_is_granted() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

/// The units that ONEDNN_MAX_CPU_ISA allows, in oneDNN's words: ALL, AVX2, AVX512_CORE_BF16,
/// AVX512_CORE_AMX, ...
Bf16Unit limit() {
  const char* set = std::getenv("ONEDNN_MAX_CPU_ISA");
  std::string isa = set == nullptr ? "ALL" : set;
  for (char& c : isa) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const auto has = [&](const char* word) { return isa.find(word) != std::string::npos; };
  if (isa == "ALL" || isa == "DEFAULT" || has("AMX")) return Bf16Unit::amx;
  return has("BF16") || has("FP16") || has("AVX10") ? Bf16Unit::avx512 : Bf16Unit::none;
}

Bf16Unit find_unit() {
  __builtin_cpu_init();
  const bool has_avx512 = __builtin_cpu_supports("avx512bf16") &&
                          __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (!has_avx512 || limit() == Bf16Unit::none) return Bf16Unit::none;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  const bool has_amx = __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 &&
                       (edx & kAmxBf16) != 0 && (edx & kAmxTile) != 0;
  return has_amx && limit() == Bf16Unit::amx && amx_is_granted() ? Bf16Unit::amx : Bf16Unit::avx512;
}

}  // namespace

Bf16Unit bf16_unit() {
  static const Bf16Unit found = find_unit();
  return found;
}

}  // namespace tessera::cpu
