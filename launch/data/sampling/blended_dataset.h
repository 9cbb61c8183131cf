#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/data/sample.h"
#include "launch/data/sampling/blend_order.h"

namespace tessera {

/// Blends datasets by weight. The parts take turns at an infinite sequence of places according to
/// BlendOrder. Each part goes through all its samples before it repeats any, and then starts its
/// own next epoch, independently of the other parts. The sample at a place is a function of the
/// place.
///
/// num_samples() is the sum over all parts unless it is given, and an epoch of the blend has that
/// many places. Depending on the weights, it may use one part several times and another only in
/// part; the next epoch continues from there.
class BlendedDataset final : public Dataset {
 public:
  struct Part {
    std::shared_ptr<const Dataset> samples;
    double weight = 1.0;
    /// Seed of the order of its samples, which changes with each of its epochs; nothing: natural
    /// order.
    std::optional<uint64_t> order_seed;
  };

  /// Throws if there are no parts, if one has no samples, if their seq_lengths differ, and as
  /// BlendOrder does.
  explicit BlendedDataset(std::vector<Part> parts, std::optional<int64_t> num_samples = {});

  int64_t num_samples() const override { return num_samples_; }
  int64_t seq_length() const override { return parts_.front().samples->seq_length(); }
  bool has_order() const override { return true; }

  /// The sample at place epoch × num_samples() + sample. Sample::dataset is its part.
  void fill(int64_t sample, int64_t epoch, Sample& out) const override;
  void will_fill(int64_t sample, int64_t epoch) const override;
  std::vector<TextOrigin> origins(int64_t sample, int64_t epoch) const override;

 private:
  /// A sample of a part, as in one of that part's epochs.
  struct Own {
    const Dataset& part;
    int64_t sample = 0;
    int64_t epoch = 0;
    int32_t number = 0;  ///< of the part
  };

  Own own_sample(int64_t sample, int64_t epoch) const;

  std::vector<Part> parts_;
  BlendOrder order_;
  int64_t num_samples_ = 0;
};

}  // namespace tessera
