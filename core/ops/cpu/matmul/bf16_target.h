#pragma once

// GCC 12 takes what its own intrinsics leave undefined on purpose for a mistake (GCC bug 105593).
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

// These functions are compiled for processors that this program may not run on; bf16_unit() says.
#define TESSERA_AMX [[gnu::target("amx-tile,amx-bf16")]]
#define TESSERA_AVX512_BF16 [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]]
