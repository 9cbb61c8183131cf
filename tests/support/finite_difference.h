#pragma once

#include <functional>
#include <span>
#include <vector>

namespace tessera::test {

/// d f / d x[i] for every i by central differences. In double and with f of magnitude 1, the third
/// derivative contributes an error of about h² and rounding one of 1e-16 / h: 1e-10 at h = 1e-5.
std::vector<double> finite_difference(const std::function<double(std::span<const double>)>& f,
                                      std::span<const double> x, double h = 1e-5);

/// Σ a[i] b[i]: turns a function with many outputs into one with a gradient to compare.
double dot(std::span<const double> a, std::span<const double> b);

}  // namespace tessera::test
