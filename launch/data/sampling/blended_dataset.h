#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/data/sample.h"
#include "launch/data/sampling/blend_order.h"

namespace tessera {

/// Several datasets, of which each gives its share of the samples. In an endless row of places the
/// parts take turns as BlendOrder says, and each part gives its own samples one after the other,
/// all once before any comes again; when all have been used it begins its next epoch, which has
/// nothing to do with those of the other parts. A place's sample is a function of the place.
///
/// num_samples() is the sum of all parts' samples: an epoch of the blend has as many places. In it
/// one part may be used several times and another not wholly, as the weights say, and the next
/// epoch goes on behind it.
class BlendedDataset final : public Dataset {
 public:
  struct Part {
    std::shared_ptr<const Dataset> samples;
    double weight = 1.0;
    /// Decides the order of its samples, a new one in each epoch of it; nothing is their natural
    /// order.
    std::optional<uint64_t> order_seed;
  };

  /// Throws if there is no part, one has no sample, they have not the same seq_length, or what
  /// BlendOrder throws.
  explicit BlendedDataset(std::vector<Part> parts);

  int64_t num_samples() const override { return num_samples_; }
  int64_t seq_length() const override { return parts_.front().samples->seq_length(); }
  bool has_order() const override { return true; }

  /// The sample at place epoch × num_samples() + sample.
  void fill(int64_t sample, int64_t epoch, Sample& out) const override;
  void will_fill(int64_t sample, int64_t epoch) const override;

 private:
  /// A sample of a part, as it is in an epoch of it.
  struct Own {
    const Dataset& part;
    int64_t sample = 0;
    int64_t epoch = 0;
  };

  Own own_sample(int64_t sample, int64_t epoch) const;

  std::vector<Part> parts_;
  BlendOrder order_;
  int64_t num_samples_ = 0;
};

}  // namespace tessera
