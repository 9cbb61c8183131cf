#include "core/ops/dispatch/checks.h"

#include "core/error.h"

namespace tessera {
namespace {

bool overlap(const Tensor& a, const Tensor& b) {
  if (a.raw() == nullptr || b.raw() == nullptr) return false;
  const auto a_begin = reinterpret_cast<uintptr_t>(a.raw());
  const auto b_begin = reinterpret_cast<uintptr_t>(b.raw());
  return a_begin < b_begin + b.bytes() && b_begin < a_begin + a.bytes();
}

}  // namespace

void require_float(const Tensor& tensor, const char* op, const char* name) {
  const bool is_float = tensor.defined() && tensor.shape().rank() > 0 &&
                        (tensor.dtype() == DType::f32 || tensor.dtype() == DType::bf16);
  if (is_float) return;  // first: every op calls this, and texts cost time
  fail("{}: {} must be fp32 or bf16 with at least one dim, but is {}", op, name, describe(tensor));
}

void require_like(const Tensor& tensor, const Tensor& like, const char* op, const char* name) {
  require_shape(tensor, like.shape(), op, name);
  require_dtype(tensor, like.dtype(), op, name);
}

void require_same_or_disjoint(const Tensor& out, const char* out_name, const Tensor& in,
                              const char* in_name, const char* op) {
  const bool same = out.raw() == in.raw() && out.bytes() == in.bytes();
  require(same || !overlap(out, in),
          "{}: {} overlaps a part of {}; it must be the same tensor or share nothing", op, out_name,
          in_name);
}

void require_disjoint(const Tensor& out, const char* out_name, const Tensor& in,
                      const char* in_name, const char* op) {
  require(!overlap(out, in), "{}: {} may not share memory with {}", op, out_name, in_name);
}

Device common_device_of(const char* op, std::span<const Tensor* const> tensors) {
  const Tensor* first = nullptr;
  for (const Tensor* tensor : tensors) {
    if (!tensor->defined()) continue;
    if (first == nullptr) first = tensor;
    require(tensor->device() == first->device(),
            "{}: all tensors must be on one device, but one is {} and another {}", op,
            describe(*first), describe(*tensor));
  }
  return first == nullptr ? kCpu : first->device();
}

}  // namespace tessera
