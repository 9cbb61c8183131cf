#include "launch/data/sampling/blended_dataset.h"

#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "launch/data/sampling/sample_order.h"

namespace tessera {
namespace {

std::vector<double> weights_of(const std::vector<BlendedDataset::Part>& parts) {
  std::vector<double> weights;
  for (const BlendedDataset::Part& part : parts) weights.push_back(part.weight);
  return weights;
}

}  // namespace

BlendedDataset::BlendedDataset(std::vector<Part> parts, std::optional<int64_t> num_samples)
    : parts_(std::move(parts)), order_(weights_of(parts_)) {
  for (const Part& part : parts_) {
    require(part.samples->seq_length() == seq_length(),
            "datasets with samples of {} and of {} tokens cannot be blended", seq_length(),
            part.samples->seq_length());
    require(part.samples->num_samples() >= 1, "a dataset without samples cannot be blended");
    require(!__builtin_add_overflow(num_samples_, part.samples->num_samples(), &num_samples_),
            "the blended datasets have more than 2^63 - 1 samples");
  }
  num_samples_ = num_samples.value_or(num_samples_);
}

void BlendedDataset::fill(int64_t sample, int64_t epoch, Sample& out) const {
  const Own own = own_sample(sample, epoch);
  own.part.fill(own.sample, own.epoch, out);
  out.dataset = own.number;
}

void BlendedDataset::will_fill(int64_t sample, int64_t epoch) const {
  const Own own = own_sample(sample, epoch);
  own.part.will_fill(own.sample, own.epoch);
}

std::vector<TextOrigin> BlendedDataset::origins(int64_t sample, int64_t epoch) const {
  const Own own = own_sample(sample, epoch);
  return own.part.origins(own.sample, own.epoch);
}

BlendedDataset::Own BlendedDataset::own_sample(int64_t sample, int64_t epoch) const {
  int64_t place = 0;
  const bool exists = 0 <= sample && sample < num_samples_ && epoch >= 0 &&
                      !__builtin_mul_overflow(epoch, num_samples_, &place) &&
                      !__builtin_add_overflow(place, sample, &place);
  require(exists, "a blend of {} samples has no sample {} in epoch {}", num_samples_, sample,
          epoch);
  const BlendOrder::Turn turn = order_.at(place);
  const Part& part = parts_[turn.part];
  const int64_t size = part.samples->num_samples();
  const int64_t own_epoch = turn.number / size, own_place = turn.number % size;
  const int64_t own =
      part.order_seed ? permuted(*part.order_seed, own_epoch, size, own_place) : own_place;
  return {*part.samples, own, own_epoch, narrow<int32_t>(turn.part)};
}

}  // namespace tessera
