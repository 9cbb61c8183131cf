#include "tests/support/golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/runs/shards.h"
#include "tests/support/source_folder.h"

namespace tessera::test {

Golden::Golden(const std::string& name)
    : file_(source_folder() / "tests/parity" / (name + "_golden.safetensors")) {}

void Golden::load_weights(ParameterStore& store) const {
  for (Parameter& parameter : store.parameters()) {
    const auto shard = shard_of(get<float>("weight/" + parameter.name), parameter);
    std::copy(shard.begin(), shard.end(), parameter.value().data<float>());
  }
}

void Golden::expect_parameters(const ParameterStore& store, const std::string& prefix,
                               const Tensor& (Parameter::*view)() const, double tolerance,
                               KeyBias key_bias) const {
  for (const Parameter& parameter : store.parameters()) {
    const auto whole = get<float>(prefix + parameter.name);
    const auto expected = shard_of(whole, parameter);
    float largest = 0.0f;
    for (const float value : whole) largest = std::max(largest, std::abs(value));
    const float* actual = (parameter.*view)().data<float>();
    const bool qkv_bias = parameter.name.find("qkv.bias") != std::string::npos;
    const size_t third = expected.size() / 3;
    for (size_t i = 0; i < expected.size(); ++i) {
      if (qkv_bias && key_bias == KeyBias::left_out && i / third == 1) continue;
      ASSERT_NEAR(actual[i], expected[i], tolerance * double{largest})
          << prefix << parameter.name << ", element " << i;
    }
  }
}

}  // namespace tessera::test
