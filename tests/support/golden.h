#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "core/parameters/parameter.h"
#include "launch/checkpoint/format/safetensors.h"

namespace tessera::test {

/// What PyTorch computed: a file of tests/parity, whose README says what it holds.
class Golden {
 public:
  /// `name` as in tests/parity/<name>_golden.safetensors.
  explicit Golden(const std::string& name);

  /// The elements of a tensor of T's dtype, in rows.
  template <typename T>
  std::vector<T> get(const std::string& key) const {
    const auto bytes = file_.bytes(file_.entry(key));
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  /// Sets each parameter, on this rank, to its part of the tensor weight/<name>.
  void load_weights(ParameterStore& store) const;

  /// Whether the key bias is compared: only in gradients, see the README.
  enum class KeyBias : uint8_t { compared, left_out };

  /// Compares a view of each parameter, such as &Parameter::grad, with this rank's part of the
  /// tensor <prefix><name>, relative to that tensor's largest element.
  void expect_parameters(const ParameterStore& store, const std::string& prefix,
                         Tensor Parameter::*view, double tolerance, KeyBias key_bias) const;

 private:
  SafetensorsFile file_;
};

}  // namespace tessera::test
