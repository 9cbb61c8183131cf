#pragma once

#include <memory>

#include "launch/data/sample.h"

namespace tessera {

/// Some samples of a dataset, spread evenly over it: one from each of as many equal parts, at a
/// place in it that looks random and is always the same, so that no period of the data repeats.
class SpreadSamples final : public Dataset {
 public:
  /// All samples of `all` if `count` is not smaller. Throws unless `count` is at least 1.
  SpreadSamples(std::shared_ptr<const Dataset> all, int64_t count);

  int64_t num_samples() const override { return count_; }
  int64_t seq_length() const override { return all_->seq_length(); }
  void fill(int64_t sample, int64_t epoch, Sample& out) const override {
    all_->fill(place_of(sample), epoch, out);
  }
  void will_fill(int64_t sample, int64_t epoch) const override {
    all_->will_fill(place_of(sample), epoch);
  }
  std::vector<TextOrigin> origins(int64_t sample, int64_t epoch) const override {
    return all_->origins(place_of(sample), epoch);
  }

  /// The place in the whole dataset.
  int64_t place_of(int64_t sample) const;

 private:
  std::shared_ptr<const Dataset> all_;
  int64_t count_;
};

}  // namespace tessera
