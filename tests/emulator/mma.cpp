#include <emulator.h>

#include <bit>

namespace emulator {
namespace {

float half_of(uint32_t pair, int which) {
  return std::bit_cast<float>(which == 0 ? pair << 16 : pair & 0xffff0000u);
}

}  // namespace

void mma_m16n8k16(MmaOperands* const* lanes) {
  float a[16][16], b[16][8], c[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const MmaOperands& mine = *lanes[lane];
    const int g = lane / 4, t = lane % 4;
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 4; ++i) {
        a[g + 8 * (i % 2)][2 * t + 8 * (i / 2) + half] = half_of(mine.a[i], half);
      }
      for (int i = 0; i < 2; ++i) b[2 * t + 8 * i + half][g] = half_of(mine.b[i], half);
    }
    for (int i = 0; i < 4; ++i) c[g + 8 * (i / 2)][2 * t + i % 2] = mine.c[i];
  }
  for (int m = 0; m < 16; ++m) {
    for (int k = 0; k < 16; ++k) {
      for (int n = 0; n < 8; ++n) c[m][n] += a[m][k] * b[k][n];
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      lanes[lane]->c[i] = c[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2];
    }
  }
}

}  // namespace emulator
