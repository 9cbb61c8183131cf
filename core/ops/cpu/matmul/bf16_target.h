#pragma once

// GCC 12 warns about values that its own intrinsics leave undefined on purpose (GCC bug 105593).
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

// Targets for processors that this program may not run on; call these functions only if bf16_unit()
// says so.
#define TESSERA_AMX [[gnu::target("amx-tile,amx-bf16")]]
#define TESSERA_AVX512_BF16 [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]]
