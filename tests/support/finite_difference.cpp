#include "tests/support/finite_difference.h"

#include <numeric>

namespace tessera::test {

std::vector<double> finite_difference(const std::function<double(std::span<const double>)>& f,
                                      std::span<const double> x, double h) {
  std::vector<double> point(x.begin(), x.end());
  std::vector<double> gradient(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    point[i] = x[i] + h;
    const double above = f(point);
    point[i] = x[i] - h;
    const double below = f(point);
    point[i] = x[i];
    gradient[i] = (above - below) / (2.0 * h);
  }
  return gradient;
}

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

}  // namespace tessera::test
