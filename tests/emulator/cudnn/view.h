#pragma once

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "tests/emulator/cudnn/attention.h"
#include "tests/emulator/device_memory.h"

namespace emulator {

inline constexpr double kCudnnGarbage = std::numeric_limits<double>::quiet_NaN();

/// Ends the process.
[[noreturn]] inline void fail_cudnn(const std::string& what) {
  std::fprintf(stderr, "emulated GPU: cuDNN's attention: %s\n", what.c_str());
  std::abort();
}

/// A tensor (B, H, S, D) in memory.
class CudnnView {
 public:
  CudnnView(const CudnnTensor& tensor, const CudnnPointers& pointers)
      : tensor_(*tensor), data_(pointers.at(*tensor->uid())) {
    const CudnnTensor& offset = tensor->get_ragged_offset();
    if (offset != nullptr) offsets_ = static_cast<const int32_t*>(pointers.at(*offset->uid()));
  }

  int64_t heads() const { return tensor_.get_dim()[1]; }
  int64_t features() const { return tensor_.get_dim()[3]; }

  /// The rows of sequence b, up to the start of the next sequence.
  int64_t rows(int64_t b) const {
    if (offsets_ == nullptr) return tensor_.get_dim()[2];
    return (offsets_[b + 1] - offsets_[b]) / tensor_.get_stride()[2];
  }

  /// If ragged: the end of `length` rows of sequence b within all rows.
  int64_t end(int64_t b, int64_t length) const {
    return offsets_ == nullptr ? 0 : offsets_[b] / tensor_.get_stride()[2] + length;
  }

  /// Ends the process unless sequence b has `length` rows.
  void require_rows(int64_t b, int64_t length) const {
    if (offsets_ == nullptr || length == 0) return;
    constexpr int64_t kAlignedTo = 16;
    const int64_t first = offsets_[b], bytes = size_of(tensor_.get_data_type());
    const std::string who = "tensor " + std::to_string(*tensor_.uid()) + "'s ragged offset of " +
                            "sequence " + std::to_string(b) + ", " + std::to_string(first) + ",";
    if (first < 0 || rows(b) < length) {
      fail_cudnn(who + " leaves it " + std::to_string(rows(b)) + " rows, but it has " +
                 std::to_string(length));
    }
    const bool is_operand = tensor_.get_data_type() == cudnn_frontend::DataType_t::BFLOAT16;
    if (is_operand && first * bytes % kAlignedTo != 0) fail_cudnn(who + " is not aligned");
    const auto* last =
        static_cast<std::byte*>(data_) + bytes * at(b, heads() - 1, length - 1, features()) - 1;
    if (!is_allocated_device(last) && !is_allocated_host(last)) {
      fail_cudnn(who + " and its " + std::to_string(length) + " rows leave the memory");
    }
  }

  double get(int64_t b, int64_t h, int64_t s, int64_t d) const {
    const int64_t i = at(b, h, s, d);
    return tensor_.get_data_type() == cudnn_frontend::DataType_t::FLOAT
               ? double{static_cast<const float*>(data_)[i]}
               : double{static_cast<float>(static_cast<const tessera::bfloat16*>(data_)[i])};
  }
  void set(int64_t b, int64_t h, int64_t s, int64_t d, double value) const {
    const int64_t i = at(b, h, s, d);
    const auto rounded = static_cast<float>(value);
    if (tensor_.get_data_type() == cudnn_frontend::DataType_t::FLOAT) {
      static_cast<float*>(data_)[i] = rounded;
    } else {
      static_cast<tessera::bfloat16*>(data_)[i] = tessera::bfloat16(rounded);
    }
  }

  /// Returns `length` rows of (b, h) as (length, D).
  std::vector<double> read(int64_t b, int64_t h, int64_t length) const {
    std::vector<double> values;
    values.reserve(static_cast<size_t>(length * features()));
    for (int64_t s = 0; s < length; ++s) {
      for (int64_t d = 0; d < features(); ++d) values.push_back(get(b, h, s, d));
    }
    return values;
  }
  /// Writes `values` to the first rows of (b, h); the others become garbage.
  void write(int64_t b, int64_t h, const std::vector<double>& values) const {
    for (int64_t s = 0; s < rows(b); ++s) {
      for (int64_t d = 0; d < features(); ++d) {
        const auto i = static_cast<size_t>(s * features() + d);
        set(b, h, s, d, i < values.size() ? values[i] : kCudnnGarbage);
      }
    }
  }

 private:
  int64_t at(int64_t b, int64_t h, int64_t s, int64_t d) const {
    const std::vector<int64_t>& stride = tensor_.get_stride();
    return (offsets_ == nullptr ? b * stride[0] : offsets_[b]) + h * stride[1] + s * stride[2] + d;
  }

  const cudnn_frontend::graph::Tensor_attributes& tensor_;
  void* data_;
  const int32_t* offsets_ = nullptr;
};

}  // namespace emulator
