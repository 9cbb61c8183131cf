#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/memory.h"
#include "core/parameters/parameter.h"

namespace tessera {

/// The elements that this rank updates: 1-D views of the same elements of each flat buffer. With
/// several shards, only these elements of the gradient are reduced.
struct OptimizerShard {
  /// Range in a flat buffer, or in one parameter's real_shape(), row-major; may be empty.
  Range elements;
  Tensor value;       ///< compute precision
  Tensor grad;        ///< fp32; undefined if frozen, as are the moments and the average
  Tensor master;      ///< fp32; `value` itself where precision is fp32
  Tensor exp_avg;     ///< moment_dtype()
  Tensor exp_avg_sq;  ///< moment_dtype(); undefined unless the parameters of all elements have one
  /// Scales of 8-bit moments (core/ops/block_codes.h), one for each block, counted from this
  /// shard's first element. Undefined for other dtypes.
  Tensor exp_avg_scales, exp_avg_sq_scales;
  Tensor ema;  ///< fp32: the average of `master`; undefined unless the state keeps one
};

/// A ShardRange with its tensors.
struct OptimizerRange {
  OptimizerShard shard;
  size_t bucket = 0;
  int property = 0;
};

/// The tensors that an optimizer keeps.
struct OptimizerStateSpec {
  /// fp32, bf16, or uint8 for codes (core/ops/block_codes.h). The moments of parameters with fewer
  /// than OptimizerState::kFewestCodes elements are then fp32.
  DType moments = DType::f32;
  /// Whether the optimizer keeps a second moment of a parameter; of all if there is no function.
  std::function<bool(const Parameter&)> has_second_moment = {};
  bool average = false;  ///< of the trained weights
};

/// Keeps the rest of the training state of a store's parameters, besides values and gradients: fp32
/// masters (unless precision is fp32), the optimizer's moments, and, if wanted, an average of the
/// masters, each for the elements of this rank's shards. Frozen bf16 parameters have masters in
/// host memory, so that checkpoints keep the weights that training started from.
class OptimizerState {
 public:
  /// As in bitsandbytes: they take little memory, and norms and biases are sensitive.
  static constexpr int64_t kFewestCodes = 4096;

  /// Allocates zeroed buffers. `store` must be allocated for training, and outlive this.
  explicit OptimizerState(ParameterStore& store, const OptimizerStateSpec& spec = {});

  /// Fills masters and values with initial weights (write_initial). The average begins with them.
  void initialize(uint64_t seed);

  /// The part of a parameter that this rank updates or, of a frozen one, keeps for checkpoints.
  const OptimizerShard& of(const Parameter& parameter) const { return shards_[parameter.index]; }
  /// ParameterStore::shard_ranges_by() with tensors, those of the moments undefined if 8-bit.
  std::vector<OptimizerRange> ranges_by(const std::function<int(const Parameter&)>& property) const;

  bool has_second_moment(const Parameter& parameter) const {
    return !spec_.has_second_moment || spec_.has_second_moment(parameter);
  }
  bool has_masters() const { return store_.precision() != DType::f32; }
  bool has_average() const { return spec_.average; }
  /// average = masters, for the elements that this rank updates. Nothing if there is no average.
  void start_average();

  ParameterStore& store() const { return store_; }
  DType moment_dtype() const { return spec_.moments; }

  size_t master_bytes() const { return masters_.bytes(); }
  size_t moment_bytes() const {
    return exp_avg_.bytes() + exp_avg_sq_.bytes() + code_scales_.bytes() + small_moments_.bytes();
  }
  size_t average_bytes() const { return ema_.bytes(); }
  size_t frozen_master_bytes() const { return frozen_masters_.bytes(); }  ///< in host memory

 private:
  struct StoredRange {
    Range elements;  ///< of the flat buffers
    int64_t begin;   ///< in the buffer of second moments
  };

  OptimizerShard shard_of(size_t bucket, Range elements) const;
  OptimizerShard shard_of(const Parameter& parameter) const;
  bool has_codes(const Parameter& parameter) const;
  void allocate_beside_codes();
  void place_beside_codes();
  int64_t place_second_moments();
  Tensor second_moments_of(Range elements) const;

  ParameterStore& store_;
  OptimizerStateSpec spec_;
  Buffer masters_, exp_avg_, exp_avg_sq_, ema_, frozen_masters_;
  Buffer code_scales_, small_moments_;  // of 8-bit moments, and of parameters with fp32 beside them
  std::vector<StoredRange> second_moments_;  // those of this rank's shards, in order
  std::vector<OptimizerShard> shards_;       // of each parameter
};

}  // namespace tessera
