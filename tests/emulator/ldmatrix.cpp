#include <emulator.h>

namespace emulator {

template <bool kTransposed>
void ldmatrix(MatrixRow* const* lanes) {
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int m = 0; m < 4; ++m) {
      const auto element = [&](int row, int column) {
        return uint32_t{lanes[8 * m + row]->row[column]};
      };
      lanes[lane]->registers[m] = kTransposed ? element(2 * t, g) | element(2 * t + 1, g) << 16
                                              : element(g, 2 * t) | element(g, 2 * t + 1) << 16;
    }
  }
}

template void ldmatrix<false>(MatrixRow* const*);
template void ldmatrix<true>(MatrixRow* const*);

}  // namespace emulator
