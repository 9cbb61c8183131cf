#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "core/parameters/parameter.h"
#include "launch/checkpoint/format/safetensors.h"

namespace tessera::test {

/// PyTorch's results: a file of tests/parity, whose README describes its contents.
class Golden {
 public:
  /// `name` as in tests/parity/<name>_golden.safetensors.
  explicit Golden(const std::string& name);

  /// Returns the elements of a tensor of T's dtype in row-major order.
  template <typename T>
  std::vector<T> get(const std::string& key) const {
    const auto bytes = file_.bytes(file_.entry(key));
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  /// Sets each parameter to this rank's shard of the tensor weight/<name>.
  void load_weights(ParameterStore& store) const;

  /// Whether to compare the key bias: only for gradients, see the README.
  enum class KeyBias : uint8_t { compared, left_out };

  /// Compares a view of each parameter, such as &Parameter::grad, with this rank's shard of the
  /// tensor <prefix><name>, relative to that tensor's largest element.
  void expect_parameters(const ParameterStore& store, const std::string& prefix,
                         const Tensor& (Parameter::*view)() const, double tolerance,
                         KeyBias key_bias) const;

 private:
  SafetensorsFile file_;
};

}  // namespace tessera::test
