#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/parameters/parameter.h"
#include "core/trace/output_watch.h"
#include "core/trace/place_stack.h"
#include "launch/train/diagnosis/finite_check.h"

namespace tessera {

/// A tensor with a NaN or an infinity.
struct NotFiniteTensor {
  std::string tensor;  ///< "the output of layer_norm, fp32 (96, 32)", "the gradient of head.weight"
  std::string place;   ///< "blocks.1/mlp"
  int64_t order = 0;   ///< number of the output among those of the rank's pass
};

/// Finds the first output of a pass that is not finite. Waits for the device after each op, so a
/// pass takes several times as long. Some ops are left out, whose outputs are infinite by design.
class NotFiniteWatch final : public OutputWatch {
 public:
  /// `store` must be allocated and outlive this.
  explicit NotFiniteWatch(const ParameterStore& store);

  void wrote(const Tensor& output) override;

  /// The first since the last reset().
  const std::optional<NotFiniteTensor>& found() const { return found_; }
  void reset();

  /// Watches the calling thread's ops for the lifetime of the scope.
  class Scope {
   public:
    explicit Scope(NotFiniteWatch& watch);

   private:
    PlaceStack::Scope places_;
    OutputWatch::Scope outputs_;
  };

 private:
  std::string name_of(const Tensor& output, const std::string& op) const;

  const ParameterStore& store_;
  FiniteCheck check_;
  PlaceStack own_places_;      // if nothing else records them
  uint32_t outer_places_ = 0;  // open when the scope began
  int64_t order_ = 0;
  std::optional<NotFiniteTensor> found_;
};

}  // namespace tessera
