#include <algorithm>
#include <cstddef>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/checked.h"
#include "core/error.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {
namespace {

using dnnl::memory;

constexpr int64_t kAnyCount = DNNL_RUNTIME_DIM_VAL;

/// Everything that determines a product's primitive. m or k may be kAnyCount, and is then given at
/// each run.
struct ProductKey {
  int64_t m, n, k;
  int64_t columns;  ///< of the matrices that b and out are n columns of; of b only if it is stored
                    ///< by rows
  MatrixLayout a_layout, b_layout;
  DType in, out;
  bool bias, accumulate;

  bool operator==(const ProductKey&) const = default;
};

struct ProductKeyHash {
  size_t operator()(const ProductKey& key) const {
    const auto mix = [](size_t hash, size_t value) {
      return (hash ^ value) * 0x9e3779b97f4a7c15u + (hash >> 29);
    };
    size_t hash = 0;
    for (const int64_t size : {key.m, key.n, key.k, key.columns}) {
      hash = mix(hash, static_cast<size_t>(size));
    }
    const size_t flags = static_cast<size_t>(key.a_layout) |
                         static_cast<size_t>(key.b_layout) << 1 | static_cast<size_t>(key.in) << 2 |
                         static_cast<size_t>(key.out) << 5 | static_cast<size_t>(key.bias) << 8 |
                         static_cast<size_t>(key.accumulate) << 9;
    return mix(hash, flags);
  }
};

/// The number of cached products, in our cache and oneDNN's. Each takes 0.1 to 0.4 MiB. Steps of
/// one model have some tens, apart from the varying number of rows.
constexpr int kMostProducts = 256;

// Never destroyed: oneDNN's own statics might be destroyed before.
dnnl::engine& cpu_engine() {
  static auto* engine = [] {
    dnnl::set_primitive_cache_capacity(kMostProducts);
    return new dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return *engine;
}

dnnl::stream& cpu_stream() {
  thread_local dnnl::stream stream(cpu_engine());
  return stream;
}

memory::data_type onednn_type(DType dtype) {
  return dtype == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

/// A slice of `cols` neighboring columns of a matrix with `of` columns; a matrix stored by columns
/// ignores `of`.
memory::desc matrix_desc(int64_t rows, int64_t cols, DType dtype, MatrixLayout layout, int64_t of) {
  const memory::dims strides =
      layout == MatrixLayout::rows ? memory::dims{of, 1} : memory::dims{1, rows};
  return {{rows, cols}, onednn_type(dtype), strides};
}

/// The descriptors of a product's matrices; the bias has no dims if there is none.
struct ProductDescs {
  memory::desc a, b, bias, out;

  explicit ProductDescs(const ProductKey& key)
      : a(matrix_desc(key.m, key.k, key.in, key.a_layout, key.k)),
        b(matrix_desc(key.k, key.n, key.in, key.b_layout, key.columns)),
        out(matrix_desc(key.m, key.n, key.out, MatrixLayout::rows, key.columns)) {
    if (key.bias) bias = matrix_desc(1, key.n, key.in, MatrixLayout::rows, key.n);
  }
};

/// The addresses of a product's matrices; the bias is null if there is none.
struct ProductPointers {
  void *a, *b, *bias, *out;
};

/// A compiled product with its argument slots, so a call sets four pointers and runs.
class Product {
 public:
  explicit Product(const ProductKey& key) : any_count_(key.m == kAnyCount || key.k == kAnyCount) {
    dnnl::primitive_attr attributes;
    if (key.accumulate) {
      dnnl::post_ops ops;
      ops.append_sum(1.0f);
      attributes.set_post_ops(ops);
    }
    const ProductDescs descs(key);
    primitive_ = dnnl::matmul(describe(descs, attributes));
    if (!any_count_) make_arguments(descs);
  }

  /// `sizes` is the key with all counts filled in.
  void run(const ProductKey& sizes, const ProductPointers& at) {
    if (any_count_) make_arguments(ProductDescs(sizes));
    args_.at(DNNL_ARG_SRC).set_data_handle(at.a);
    args_.at(DNNL_ARG_WEIGHTS).set_data_handle(at.b);
    args_.at(DNNL_ARG_DST).set_data_handle(at.out);
    if (at.bias != nullptr) args_.at(DNNL_ARG_BIAS).set_data_handle(at.bias);
    primitive_.execute(cpu_stream(), args_);
    cpu_stream().wait();
  }

 private:
  static dnnl::matmul::primitive_desc describe(const ProductDescs& descs,
                                               const dnnl::primitive_attr& attributes) {
    const auto& [a, b, bias, out] = descs;
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

  void make_arguments(const ProductDescs& descs) {
    const auto set = [&](int argument, const memory::desc& desc) {
      args_.insert_or_assign(argument, memory(desc, cpu_engine(), nullptr));
    };
    set(DNNL_ARG_SRC, descs.a);
    set(DNNL_ARG_WEIGHTS, descs.b);
    set(DNNL_ARG_DST, descs.out);
    if (!descs.bias.is_zero()) set(DNNL_ARG_BIAS, descs.bias);
  }

  bool any_count_;
  dnnl::matmul primitive_;
  std::unordered_map<int, memory> args_;
};

// Batches without padding have a different number of rows in every step, and creating a primitive
// takes 0.1 to 0.6 ms. Primitives for any number of rows are up to a fifth slower where they write
// rows, and equally fast where they sum over rows. So they are used for small products and for
// weight gradients. The choice depends only on the sizes, so the bits do not depend on earlier
// products.
ProductKey primitive_key(ProductKey sizes) {
  constexpr int64_t kFewRows = 64;    // so few that each may have its own primitive
  constexpr double kSmall = 1 << 26;  // multiplications, about 1 ms
  const auto varies = [](int64_t rows) { return rows > kFewRows && rows % kFewRows != 0; };
  const bool sums_over_rows = sizes.a_layout == MatrixLayout::columns;
  if (sums_over_rows) {
    if (varies(sizes.k)) sizes.k = kAnyCount;
    return sizes;
  }
  const double multiplications =
      static_cast<double>(sizes.m) * static_cast<double>(sizes.n) * static_cast<double>(sizes.k);
  if (varies(sizes.m) && multiplications <= kSmall) sizes.m = kAnyCount;
  return sizes;
}

/// The product for `key`, created at its first use; null if oneDNN has none (bf16 on processors
/// without AVX-512). Per thread, because arguments are set before each run.
Product* cached_product(const ProductKey& key) {
  thread_local std::unordered_map<ProductKey, std::unique_ptr<Product>, ProductKeyHash> products;
  const auto found = products.find(key);
  if (found != products.end()) return found->second.get();
  if (products.size() == kMostProducts) products.clear();  // products in use are created again
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

/// oneDNN 2.6 is up to 1.6 times slower for fp32 products of some widths over 2048 (3072, 5120,
/// 6144), but not below.
int64_t columns_at_a_time(const ProductKey& sizes) {
  constexpr int64_t kMost = 2048, kVector = 16;
  const bool by_rows = sizes.b_layout == MatrixLayout::rows;
  if (sizes.in != DType::f32 || !by_rows || sizes.n <= kMost) return sizes.n;
  return round_up(ceil_div(sizes.n, ceil_div(sizes.n, kMost)), kVector);
}

void* element(const Tensor& tensor, int64_t index) {
  return static_cast<std::byte*>(tensor.raw()) +
         static_cast<size_t>(index) * size_of(tensor.dtype());
}

/// A copy in fp32, in memory that is reused by the next call. The source may be on the emulated
/// GPU, which calls these products too.
Tensor widened(const Tensor& source, std::vector<float>& storage) {
  storage.resize(static_cast<size_t>(source.numel()));
  Tensor copy_of(storage.data(), source.shape(), DType::f32, kCpu);
  cpu::copy(source, copy_of);
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
  if (!direct) cpu::copy(wide_out, out);
}

}  // namespace

void matmul(const Matrix& a, const Matrix& b, const Tensor& bias, Tensor out,
            Accumulate accumulate) {
  if (out.numel() == 0) return;
  const bool empty_sum = a.cols == 0;
  if (empty_sum) {
    require(!bias.defined(), "matmul: a bias on a product over an empty dim is not supported");
    if (accumulate == Accumulate::no) cpu::fill(out, 0.0);
    return;
  }
  ProductKey sizes{
      a.rows,   b.cols,           a.cols,      b.cols,         a.layout,
      b.layout, a.tensor.dtype(), out.dtype(), bias.defined(), accumulate == Accumulate::yes};
  const int64_t strip = columns_at_a_time(sizes);
  for (int64_t begin = 0; begin < b.cols; begin += strip) {
    sizes.n = std::min(strip, b.cols - begin);
    Product* product = cached_product(primitive_key(sizes));
    if (product == nullptr) return matmul_widened(a, b, bias, out, accumulate);
    const int64_t b_begin = b.layout == MatrixLayout::rows ? begin : begin * b.rows;
    product->run(sizes, {a.tensor.raw(), element(b.tensor, b_begin),
                         bias.defined() ? element(bias, begin) : nullptr, element(out, begin)});
  }
}

}  // namespace tessera::cpu
