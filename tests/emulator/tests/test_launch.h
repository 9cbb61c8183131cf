#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

#include "core/cuda/device_code.h"
#include "core/cuda/launch.h"
#include "core/cuda/runtime.h"

/// Shared by tests of the emulator.
namespace tessera::cuda {

/// `count` zeros that kernels and the host can access.
template <typename T>
class Visible {
 public:
  explicit Visible(size_t count) {
    check(cudaMallocManaged(reinterpret_cast<void**>(&data_), count * sizeof(T)), "allocation");
    std::fill(data_, data_ + count, T{});
  }
  ~Visible() { cudaFree(data_); }
  Visible(const Visible&) = delete;
  Visible& operator=(const Visible&) = delete;

  T* get() const { return data_; }
  T operator[](int64_t i) const { return data_[i]; }

 private:
  T* data_ = nullptr;
};

/// Sets an environment variable for its lifetime.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value, 1);
  }
  ~Environment() {
    if (before_) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

inline LaunchShape one_block(unsigned threads, size_t shared_bytes = 0) {
  return {dim3(1), dim3(threads), shared_bytes};
}

}  // namespace tessera::cuda
