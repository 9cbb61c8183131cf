#include "core/ops/cuda/attention/cudnn_attention.h"

#include <cudnn.h>

#include <limits>
#include <memory>
#include <vector>

#include "core/cuda/graph.h"
#include "core/cuda/runtime.h"
#include "core/cuda/stream.h"
#include "core/cuda/workspace.h"
#include "core/error.h"
#include "core/lru_cache.h"
#include "core/ops/cuda/attention/cudnn_layouts.h"
#include "core/ops/cuda/attention/cudnn_plan.h"

namespace tessera::cuda {
namespace {

constexpr size_t kMostPlans = 64;

void check(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  fail("{} failed on the GPU: {}", what, cudnnGetErrorString(status));
}

/// A rank's handle ends with its thread.
class Handle {
 public:
  Handle() {
    check(cudnnCreate(&handle_), "cudnnCreate");
    check(cudnnSetStream(handle_, stream()), "cudnnSetStream");
  }
  ~Handle() { cudnnDestroy(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  cudnnHandle_t get() const { return handle_; }

 private:
  cudnnHandle_t handle_ = nullptr;
};

cudnnHandle_t handle() {
  thread_local const Handle handle;
  return handle.get();
}

/// Null if cuDNN has no plan, or none worth using.
const AttentionPlan* plan_for(const AttentionPlanKey& key) {
  const cudnnHandle_t its_handle = handle();  // created first, so it outlives the plans
  using Plan = std::shared_ptr<const AttentionPlan>;
  thread_local LruCache<AttentionPlanKey, Plan, AttentionPlanKeyHash> plans(kMostPlans);
  const Plan& plan = plans.find_or_make(key, [&]() -> Plan {
    if (!offsets_fit(key)) return nullptr;
    require_not_recording("cuDNN has to compile a plan of attention");
    if (plans.size() == kMostPlans) synchronize();  // the evicted plan may be running
    auto made = std::make_shared<const AttentionPlan>(key, its_handle);
    const bool usable = !made->unsupported_reason() && made->workspace_bytes() <= kMostPlanBytes;
    return usable ? made : nullptr;
  });
  // A plan owns its kernels; a graph may launch them long after the plan is evicted here.
  if (plan != nullptr) keep_for_recording(plan);
  return plan.get();
}

/// The scratch of a batch in one block: the plan's workspace, cuDNN's statistics, and the tables of
/// documents.
struct Scratch {
  std::byte* plan;
  float* statistics;
  DocumentTables tables;
  int64_t* seeds;

  Scratch(const AttentionPlan& for_plan, const AttentionPlanKey& key, const AttentionCalls& calls) {
    const AttentionScratch parts(for_plan.workspace_bytes(), key, calls);
    plan = static_cast<std::byte*>(workspace(parts.bytes));
    const auto ints = [&](size_t i) {
      return reinterpret_cast<int32_t*>(plan + parts.tables + i * parts.table_bytes);
    };
    statistics = reinterpret_cast<float*>(plan + parts.statistics);
    seeds = reinterpret_cast<int64_t*>(plan + parts.seeds);
    tables = {key.documents, ints(0), ints(1), ints(2), ints(3), ints(4)};
  }
};

/// The calls of a plan for one batch. Each call processes the next documents: dense ones by
/// advancing the pointers, ragged ones by tables of offsets into the whole.
class Batch {
 public:
  Batch(const AttentionPlan& plan, const AttentionPlanKey& key, const Tensor& qkv,
        const AttentionOptions& options, const Tensor& log_sum_exp)
      : plan_(plan),
        key_(key),
        mask_(options.mask),
        calls_(key, qkv, options.mask),
        scratch_(plan, key, calls_),
        places_{BatchDocuments(qkv, options.mask).count, key.length, qkv.dim(1), key.ragged} {
    ours_ = statistics_in_blocks(key.heads, calls_.rows, qkv.dim(1));
    plans_ = key.ragged ? statistics_in_rows(key.heads, calls_.rows)
                        : statistics_in_blocks(key.heads, calls_.rows, key.length);
    log_sum_exp_ = log_sum_exp.data<float>();
    const bool as_they_are = ours_ == plans_ && !(mask_.lengths.defined() && key.backward);
    statistics_ = as_they_are ? log_sum_exp_ : scratch_.statistics;
    add_rows(kStatistics, statistics_, key.heads);
    if (key.dropout > 0.0f) {
      write_dropout_seeds(options, calls_.count, scratch_.seeds);
      add(kDropoutSeed, scratch_.seeds, kSeedStride);
      add(kDropoutOffset, scratch_.seeds + kOffsetInSeeds, kSeedStride);
    }
    if (!key.ragged && !key.padded) return;
    const DocumentTables& tables = scratch_.tables;
    const RowElements elements{narrow<int32_t>(key.qkv_row()), narrow<int32_t>(width()),
                               narrow<int32_t>(key.heads)};
    describe_documents(mask_, places_, calls_.count, elements, tables);
    add(kQueryLengths, tables.query_lengths, tables.stride());
    add(kKeyLengths, tables.key_lengths, tables.stride());
    if (!key.ragged) return;
    add(kQkvOffsets, tables.qkv_offsets, tables.stride());
    add(kOutOffsets, tables.out_offsets, tables.stride());
    add(kStatisticsOffsets, tables.statistics_offsets, tables.stride());
  }

  void add_out(AttentionTensor tensor, const Tensor& at) {
    add_rows(tensor, at.data<bfloat16>(), width());
  }
  /// The three parts of the rows of qkv or of its gradient.
  void add_qkv(AttentionTensor queries, AttentionTensor keys, AttentionTensor values,
               const Tensor& at) {
    auto* data = at.data<bfloat16>();
    add_rows(queries, data, key_.qkv_row());
    add_rows(keys, data + width(), key_.qkv_row());
    add_rows(values, data + width() + key_.kv_heads * key_.head_dim, key_.qkv_row());
  }

  /// cuDNN skips rows that see nothing; if it read them, their weights would be exp(−∞).
  void give_log_sum_exp() {
    if (statistics_ == log_sum_exp_) return;
    constexpr float kNoWeights = std::numeric_limits<float>::infinity();
    copy_statistics(log_sum_exp_, ours_, statistics_, plans_, kNoWeights);
  }
  void run() {
    for (int64_t call = 0; call < calls_.count; ++call) {
      plan_.run(handle(), tensors_, scratch_.plan);
      for (size_t i = 0; i < tensors_.size(); ++i) {
        tensors_[i].second = static_cast<std::byte*>(tensors_[i].second) + steps_[i];
      }
    }
  }
  void take_log_sum_exp() {
    if (statistics_ != log_sum_exp_) copy_statistics(statistics_, plans_, log_sum_exp_, ours_);
  }
  void clear_blind_rows(const Tensor& out) {
    if (!mask_.lengths.defined()) return;
    cuda::clear_blind_rows(mask_, places_, scratch_.tables, ours_, out, log_sum_exp_);
  }
  void clear_blind_gradients(const Tensor& dqkv) {
    if (!mask_.lengths.defined()) return;
    cuda::clear_blind_gradients(mask_, places_, scratch_.tables, key_.heads, dqkv);
  }

 private:
  int64_t width() const { return key_.heads * key_.head_dim; }

  /// A tensor that starts `step` elements further in each call.
  template <typename T>
  void add(AttentionTensor tensor, T* data, int64_t step) {
    tensors_.emplace_back(tensor, data);
    steps_.push_back(step * static_cast<int64_t>(sizeof(T)));
  }
  template <typename T>
  void add_rows(AttentionTensor tensor, T* data, int64_t row) {
    add(tensor, data, key_.ragged ? 0 : key_.documents * key_.length * row);
  }

  const AttentionPlan& plan_;
  AttentionPlanKey key_;
  AttentionMask mask_;
  AttentionCalls calls_;
  Scratch scratch_;
  DocumentPlaces places_;
  StatisticsLayout ours_, plans_;
  float *log_sum_exp_, *statistics_;
  std::vector<std::pair<AttentionTensor, void*>> tensors_;
  std::vector<int64_t> steps_;  // bytes from one call to the next
};

/// The plan of one pass. With dropout, which our own kernels draw from other bits, cuDNN must have
/// plans for both passes: null if it has not.
const AttentionPlan* plan_of_pass(const Tensor& qkv, const AttentionOptions& options,
                                  bool backward) {
  if (options.dropout.active() &&
      plan_for(attention_plan_key(qkv, options, !backward)) == nullptr) {
    return nullptr;
  }
  return plan_for(attention_plan_key(qkv, options, backward));
}

/// The alignment that cuDNN's frontend assumes for every tensor.
bool is_aligned(const Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.raw()) % 16 == 0;
}

bool is_supported(const Tensor& qkv, const AttentionOptions& options) {
  return qkv.numel() > 0 && !cudnn_attention_unsupported_reason(setup_of(qkv, options));
}

}  // namespace

bool cudnn_attention_forward(const Tensor& qkv, const AttentionOptions& options, Tensor out,
                             Tensor log_sum_exp) {
  if (!is_supported(qkv, options) || !is_aligned(qkv) || !is_aligned(out)) return false;
  const AttentionPlan* plan = plan_of_pass(qkv, options, /*backward=*/false);
  if (plan == nullptr) return false;
  const AttentionPlanKey key = attention_plan_key(qkv, options, /*backward=*/false);
  Batch batch(*plan, key, qkv, options, log_sum_exp);
  batch.add_qkv(kQueries, kKeys, kValues, qkv);
  batch.add_out(kOut, out);
  batch.run();
  batch.take_log_sum_exp();
  batch.clear_blind_rows(out);
  return true;
}

bool cudnn_attention_backward(const Tensor& dout, const Tensor& qkv, const Tensor& out,
                              const Tensor& log_sum_exp, const AttentionOptions& options,
                              Tensor dqkv) {
  if (!is_supported(qkv, options) || !is_aligned(qkv) || !is_aligned(out)) return false;
  const bool aligned = is_aligned(dout) && is_aligned(dqkv);
  if (!aligned && !options.dropout.active()) return false;
  const AttentionPlan* plan = plan_of_pass(qkv, options, /*backward=*/true);
  if (plan == nullptr) return false;
  require(aligned,
          "attention_backward: dout and dqkv must be aligned to 16 bytes, because cuDNN has drawn "
          "the dropout of out");
  const AttentionPlanKey key = attention_plan_key(qkv, options, /*backward=*/true);
  Batch batch(*plan, key, qkv, options, log_sum_exp);
  batch.add_qkv(kQueries, kKeys, kValues, qkv);
  batch.add_out(kOut, out);
  batch.add_out(kOutGradient, dout);
  batch.add_qkv(kQueryGradient, kKeyGradient, kValueGradient, dqkv);
  batch.give_log_sum_exp();
  batch.run();
  batch.clear_blind_gradients(dqkv);
  return true;
}

size_t cudnn_attention_workspace(const Tensor& qkv, const AttentionOptions& options,
                                 bool backward) {
  if (!is_supported(qkv, options)) return 0;
  const AttentionPlan* plan = plan_of_pass(qkv, options, backward);
  if (plan == nullptr) return 0;
  const AttentionPlanKey key = attention_plan_key(qkv, options, backward);
  return AttentionScratch(plan->workspace_bytes(), key, {key, qkv, options.mask}).bytes;
}

void create_cudnn_handle() { handle(); }

std::string cudnn_version() {
  const size_t version = cudnnGetVersion();
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

}  // namespace tessera::cuda
