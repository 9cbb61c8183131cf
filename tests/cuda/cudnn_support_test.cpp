// Whether cuDNN has attention for the GPUs that Tessera is for, asked without one: cuDNN builds
// operation graphs and looks for engines for any GPU that is described to it. CUDA's own stub of a
// driver is enough for that, as tests/CMakeLists.txt sets it up.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "core/ops/cuda/attention/cudnn_graph.h"

namespace {

int sm_version = 90;

}  // namespace

// cudnn_frontend asks these of the GPU that is there, also when another is described.
extern "C" cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
extern "C" cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  if (attribute == cudaDevAttrComputeCapabilityMajor) {
    *value = sm_version / 10;
  } else if (attribute == cudaDevAttrComputeCapabilityMinor) {
    *value = sm_version % 10;
  } else {
    return cudaErrorNotSupported;
  }
  return cudaSuccess;
}

namespace tessera::cuda {
namespace {

/// An H100's, or with other limits another's. What is asked for was found out from cuDNN 9.19.
nlohmann::json describe_gpu(int version, int multiprocessors, int shared_bytes) {
  return {{"deviceName", "described"},
          {"cudaDeviceId", 0},
          {"deviceVer", 10 * version},
          {"driverVer", 13000},
          {"totalGlobalMem", int64_t{80} << 30},
          {"multiProcessorCount", multiprocessors},
          {"maxGridSize", {2147483647, 65535, 65535}},
          {"maxBlockSize", {1024, 1024, 64}},
          {"regsPerBlock", 65536},
          {"warpSize", 32},
          {"maxSharedMemoryPerBlock", 49152},
          {"maxSharedMemoryPerBlockOptin", shared_bytes},
          {"reservedSharedMemoryPerBlock", 1024},
          {"maxRegistersPerSM", 65536},
          {"maxCtasPerSM", 32},
          {"maxThreadsPerBlock", 1024},
          {"maxThreadsPerSM", 2048},
          {"pciDeviceId", 0},
          {"isTccDriver", 0},
          {"supportCoopLaunch", 1},
          {"smClockRateKHz", 1980000},
          {"memClockRateKHz", 2619000},
          {"l2CacheSize", 52428800}};
}

std::string unsupported_reason(const AttentionPlanKey& key, const nlohmann::json& gpu) {
  sm_version = gpu.at("deviceVer").get<int>() / 10;
  return attention_plan_unsupported_reason(key, gpu.dump(), sm_version).value_or("");
}

std::string name_of(const AttentionPlanKey& key) {
  return fmt::format("{} documents of {} rows, {} and {} heads of {}, window {}{}{}{}{}",
                     key.documents, key.length, key.heads, key.kv_heads, key.head_dim, key.window,
                     key.causal ? ", causal" : "", key.ragged ? ", ragged" : "",
                     key.backward ? ", backward" : "", key.padded ? ", padded" : "");
}

/// GPT's dense and BERT's ragged batches, with and without grouped queries, with and without masks
/// and lengths, forward and backward.
template <typename Visit>
void for_each_key(Visit visit) {
  for (const bool ragged : {false, true}) {
    for (const int64_t head_dim : {40, 64, 80, 128}) {
      for (const bool causal : {false, true}) {
        for (const int64_t window : {0, 256}) {
          for (const bool backward : {false, true}) {
            const int64_t length = ragged ? 512 : 1024, rows = ragged ? 6144 : 16 * length;
            for (const bool padded : {false, true}) {
              for (const int64_t kv_heads : {12, 4}) {
                visit(AttentionPlanKey{16, length, rows, 12, kv_heads, head_dim, window, 0.125f,
                                       causal, ragged, backward, padded});
              }
            }
          }
        }
      }
    }
  }
}

class CudnnSupport : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why =
        unsupported_reason({2, 128, 256, 2, 2, 64, 0, 1.0f, true, false, false}, h100_);
    if (why.find("json_object") != std::string::npos) {
      GTEST_SKIP() << "this cuDNN wants GPUs to be described in another way: " << why;
    }
  }

  const nlohmann::json h100_ = describe_gpu(90, 132, 232448);
  const nlohmann::json b200_ = describe_gpu(100, 148, 232448);
  const nlohmann::json a100_ = describe_gpu(80, 108, 166912);
};

TEST_F(CudnnSupport, HopperAndBlackwellHaveAllThatWeAskFor) {
  for_each_key([&](const AttentionPlanKey& key) {
    EXPECT_EQ(unsupported_reason(key, h100_), "") << name_of(key);
    EXPECT_EQ(unsupported_reason(key, b200_), "") << name_of(key);
  });
}

// Frontends give different reasons: determinism, or the layout of the statistics.
TEST_F(CudnnSupport, AmpereHasNoGradientForRaggedDocuments) {
  for_each_key([&](const AttentionPlanKey& key) {
    const std::string why = unsupported_reason(key, a100_);
    if (key.ragged && key.backward) {
      EXPECT_NE(why, "") << name_of(key);
    } else {
      EXPECT_EQ(why, "") << name_of(key);
    }
  });
}

TEST_F(CudnnSupport, WhatThereIsNotIsSaidAndNotThrown) {
  EXPECT_NE(unsupported_reason({2, 128, 256, 2, 2, 60, 0, 1.0f, true, false, false}, h100_), "");
}

TEST_F(CudnnSupport, ModelsOfTheBenchmarks) {
  for (const auto& [documents, length, heads] :
       {std::array<int64_t, 3>{16, 1024, 12}, {16, 1024, 16}, {4, 1024, 25}, {64, 512, 16}}) {
    for (const bool backward : {false, true}) {
      const AttentionPlanKey dense{
          documents, length,  documents * length, heads, heads, 64, 0, 0.125f, true,
          false,     backward};
      EXPECT_EQ(unsupported_reason(dense, h100_), "") << name_of(dense);
      AttentionPlanKey bert = dense;
      bert.causal = false, bert.ragged = true;
      EXPECT_EQ(unsupported_reason(bert, h100_), "") << name_of(bert);
    }
  }
}

}  // namespace
}  // namespace tessera::cuda
