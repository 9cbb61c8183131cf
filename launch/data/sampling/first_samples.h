#pragma once

#include <memory>

#include "launch/data/sample.h"

namespace tessera {

/// The first samples of a dataset, in its own order.
class FirstSamples final : public Dataset {
 public:
  /// Limits `all` to at most `most` samples. Throws unless `most` is at least 1.
  FirstSamples(std::shared_ptr<const Dataset> all, int64_t most);

  int64_t num_samples() const override { return num_samples_; }
  int64_t seq_length() const override { return all_->seq_length(); }
  void fill(int64_t sample, int64_t epoch, Sample& out) const override {
    all_->fill(sample, epoch, out);
  }
  std::vector<TextOrigin> origins(int64_t sample, int64_t epoch) const override {
    return all_->origins(sample, epoch);
  }

 private:
  std::shared_ptr<const Dataset> all_;
  int64_t num_samples_;
};

}  // namespace tessera
