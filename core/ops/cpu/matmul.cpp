#include "core/ops/cpu/matmul.h"

#include <cstring>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/error.h"
#include "core/ops/elementwise.h"

namespace tessera::cpu {
namespace {

using dnnl::memory;

/// All that a product's primitive depends on.
struct ProductKey {
  int64_t m, n, k;
  Layout a_layout, b_layout;
  DType in, out;
  bool bias, accumulate;

  bool operator==(const ProductKey&) const = default;
};

struct ProductKeyHash {
  size_t operator()(const ProductKey& key) const {
    const auto mix = [](size_t hash, size_t value) {
      return (hash ^ value) * 0x9e3779b97f4a7c15u + (hash >> 29);
    };
    size_t hash = mix(mix(mix(0, static_cast<size_t>(key.m)), static_cast<size_t>(key.n)),
                      static_cast<size_t>(key.k));
    const size_t flags = static_cast<size_t>(key.a_layout) |
                         static_cast<size_t>(key.b_layout) << 1 | static_cast<size_t>(key.in) << 2 |
                         static_cast<size_t>(key.out) << 5 | static_cast<size_t>(key.bias) << 8 |
                         static_cast<size_t>(key.accumulate) << 9;
    return mix(hash, flags);
  }
};

// Never destroyed: oneDNN's own statics may be gone before a static of ours would be.
dnnl::engine& cpu_engine() {
  static auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

dnnl::stream& cpu_stream() {
  thread_local dnnl::stream stream(cpu_engine());
  return stream;
}

memory::data_type onednn_type(DType dtype) {
  return dtype == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

memory::desc matrix_desc(int64_t rows, int64_t cols, DType dtype, Layout layout) {
  const memory::dims strides =
      layout == Layout::rows ? memory::dims{cols, 1} : memory::dims{1, rows};
  return {{rows, cols}, onednn_type(dtype), strides};
}

/// A compiled product with its argument slots, so that a call sets four pointers and runs.
class Product {
 public:
  explicit Product(const ProductKey& key) {
    const memory::desc a = matrix_desc(key.m, key.k, key.in, key.a_layout);
    const memory::desc b = matrix_desc(key.k, key.n, key.in, key.b_layout);
    const memory::desc out = matrix_desc(key.m, key.n, key.out, Layout::rows);
    const memory::desc bias =
        key.bias ? matrix_desc(1, key.n, key.in, Layout::rows) : memory::desc();

    dnnl::primitive_attr attributes;
    if (key.accumulate) {
      dnnl::post_ops ops;
      ops.append_sum(1.0f);
      attributes.set_post_ops(ops);
    }
    primitive_ = dnnl::matmul(describe(a, b, bias, out, attributes));

    args_.emplace(DNNL_ARG_SRC, memory(a, cpu_engine(), nullptr));
    args_.emplace(DNNL_ARG_WEIGHTS, memory(b, cpu_engine(), nullptr));
    args_.emplace(DNNL_ARG_DST, memory(out, cpu_engine(), nullptr));
    if (key.bias) args_.emplace(DNNL_ARG_BIAS, memory(bias, cpu_engine(), nullptr));
  }

  void run(void* a, void* b, void* bias, void* out) {
    args_.at(DNNL_ARG_SRC).set_data_handle(a);
    args_.at(DNNL_ARG_WEIGHTS).set_data_handle(b);
    args_.at(DNNL_ARG_DST).set_data_handle(out);
    if (bias != nullptr) args_.at(DNNL_ARG_BIAS).set_data_handle(bias);
    primitive_.execute(cpu_stream(), args_);
    cpu_stream().wait();
  }

 private:
  static dnnl::matmul::primitive_desc describe(const memory::desc& a, const memory::desc& b,
                                               const memory::desc& bias, const memory::desc& out,
                                               const dnnl::primitive_attr& attributes) {
#if DNNL_VERSION_MAJOR >= 3
    return bias.get_ndims() == 0
               ? dnnl::matmul::primitive_desc(cpu_engine(), a, b, out, attributes)
               : dnnl::matmul::primitive_desc(cpu_engine(), a, b, bias, out, attributes);
#else
    const dnnl::matmul::desc desc =
        bias.data.ndims == 0 ? dnnl::matmul::desc(a, b, out) : dnnl::matmul::desc(a, b, bias, out);
    return {desc, attributes, cpu_engine()};
#endif
  }

  dnnl::matmul primitive_;
  std::unordered_map<int, memory> args_;
};

/// The product for `key`, made at its first use; null where oneDNN has none (bf16 on processors
/// without AVX-512). Kept a thread: arguments are set before each run.
Product* cached_product(const ProductKey& key) {
  thread_local std::unordered_map<ProductKey, std::unique_ptr<Product>, ProductKeyHash> products;
  const auto found = products.find(key);
  if (found != products.end()) return found->second.get();
  std::unique_ptr<Product> product;
  try {
    product = std::make_unique<Product>(key);
  } catch (const dnnl::error& error) {
    require(error.status == dnnl_unimplemented && key.in == DType::bf16,
            "oneDNN has no {} product of ({}, {}) and ({}, {}): {}", to_string(key.in), key.m,
            key.k, key.k, key.n, error.what());
  }
  return products.emplace(key, std::move(product)).first->second.get();
}

/// A copy in fp32 in memory that is kept for the next call.
Tensor widened(const Tensor& source, std::vector<float>& storage) {
  storage.resize(static_cast<size_t>(source.numel()));
  Tensor copy_of(storage.data(), source.shape(), DType::f32, kCpu);
  copy(source, copy_of);
  return copy_of;
}

void matmul_widened(const Matrix& a, const Matrix& b, const Tensor& bias, Tensor out,
                    Accumulate accumulate) {
  thread_local std::vector<float> storage[4];
  const Tensor wide_a = widened(a.tensor, storage[0]);
  const Tensor wide_b = widened(b.tensor, storage[1]);
  const Tensor wide_bias = bias.defined() ? widened(bias, storage[2]) : Tensor();
  const bool direct = out.dtype() == DType::f32;
  const Tensor wide_out = direct ? out : widened(out, storage[3]);
  matmul({wide_a, a.rows, a.cols, a.layout}, {wide_b, b.rows, b.cols, b.layout}, wide_bias,
         wide_out, accumulate);
  if (!direct) copy(wide_out, out);
}

}  // namespace

void matmul(const Matrix& a, const Matrix& b, const Tensor& bias, Tensor out,
            Accumulate accumulate) {
  if (out.numel() == 0) return;
  const bool empty_sum = a.cols == 0;
  if (empty_sum) {
    require(!bias.defined(), "matmul: a bias on a product over an empty dim is not supported");
    if (accumulate == Accumulate::no) fill(out, 0.0);
    return;
  }
  const ProductKey key{a.rows,      b.cols,         a.cols,
                       a.layout,    b.layout,       a.tensor.dtype(),
                       out.dtype(), bias.defined(), accumulate == Accumulate::yes};
  Product* product = cached_product(key);
  if (product == nullptr) return matmul_widened(a, b, bias, out, accumulate);
  product->run(a.tensor.raw(), b.tensor.raw(), bias.defined() ? bias.raw() : nullptr, out.raw());
}

}  // namespace tessera::cpu
