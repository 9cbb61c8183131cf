#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// Notices that a run diverges while its numbers are still finite: the loss stays far above its
/// lowest level, or the gradient norm far above its recent one. Medians of several results in a row
/// are compared, so that a spike that heals is no divergence.
class DivergenceWatch {
 public:
  /// Adds a step's result. Returns what the user should know and do, once; otherwise "". Ignores
  /// numbers that are not finite.
  std::string add(int64_t step, double loss, double grad_norm);

 private:
  /// A number over the results of some steps.
  struct Level {
    int64_t first_step = 0, last_step = 0;
    double median = 0.0, largest = 0.0;
  };

  /// The level of the last `count` results.
  Level level_of(const std::vector<double>& values, size_t count) const;
  void update_levels();
  std::string rise(const char* name, const std::vector<double>& values, const Level& level,
                   size_t results, double factor) const;

  std::vector<int64_t> steps_;  // of the current block of results, and of some before it
  std::vector<double> losses_, norms_;
  size_t results_ = 0;          // so far
  std::optional<Level> first_;  // of the losses of the first few
  std::optional<Level> loss_;   // the lowest of a block
  std::optional<Level> norm_;   // of the last block
  bool has_warned_ = false;
};

}  // namespace tessera
