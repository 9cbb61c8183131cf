#include "models/layers/attention/context_attention.h"

#include <algorithm>

#include "core/error.h"
#include "core/ops/columns.h"
#include "core/ops/elementwise.h"
#include "core/ops/rows.h"

namespace tessera {
namespace {

/// (1, n, H, D) → (n, H × D).
Tensor rows_of_heads(const Tensor& heads) {
  return heads.view({heads.dim(1), heads.dim(2) * heads.dim(3)});
}

/// Parts of the key-value heads that are exchanged one after the other.
constexpr int64_t kMostParts = 2;

}  // namespace

ContextRows::ContextRows(const StepContext& ctx, const ContextCut& cut, int64_t rows,
                         int64_t columns, DType dtype, bool halo)
    : ctx_(ctx), cut_(cut), halo_(halo ? &cut.halo : nullptr) {
  require(ctx.cp != nullptr && ctx.cp->size() == cut.ranks && rows <= cut.share(),
          "a batch cut over {} context ranks needs their communicator", cut.ranks);
  const int64_t first = cut.rank * cut.share();
  all_ = ctx.arena.allocate({cut.ranks * cut.share(), columns}, dtype);
  if (halo_ != nullptr) {  // fits into the same memory, see ContextCut::halo
    const int64_t end = rows + halo_->sent.numel();
    own_ = all_.slice(0, rows);
    sent_ = all_.slice(rows, end);
    received_ = all_.slice(end, end + halo_->received.numel());
    return;
  }
  share_ = all_.slice(first, first + cut.share());
  own_ = share_.slice(0, rows);
}

void ContextRows::exchange(const Tensor& from, const std::vector<int64_t>& sends, const Tensor& to,
                           const std::vector<int64_t>& receives) {
  std::vector<Communicator::Message> messages;
  int64_t sent = 0, received = 0;
  for (int rank = 0; rank < cut_.ranks; ++rank) {
    const int64_t more = sends[static_cast<size_t>(rank)];
    const int64_t others = receives[static_cast<size_t>(rank)];
    messages.push_back(Communicator::Message::send(from.slice(sent, sent + more), rank));
    messages.push_back(Communicator::Message::recv(to.slice(received, received + others), rank));
    sent += more;
    received += others;
  }
  pending_ = ctx_.cp->exchange_async(messages);
}

void ContextRows::gather() {
  if (halo_ == nullptr) {
    pending_ = ctx_.cp->all_gather_async(share_, all_);
    return;
  }
  gather_rows(own_, halo_->sent, sent_);
  exchange(sent_, halo_->sends, received_, halo_->receives);
}

Tensor ContextRows::finish_gather() {
  pending_->wait();
  const Tensor ordered = ctx_.arena.allocate({cut_.rows, own_.dim(1)}, own_.dtype());
  if (halo_ == nullptr) {
    gather_rows(all_, cut_.gathered, ordered);
    return ordered;
  }
  fill(ordered, 0.0);  // hidden keys must be finite
  scatter_add_rows(own_, halo_->own, ordered);
  scatter_add_rows(received_, halo_->received, ordered);
  return ordered;
}

void ContextRows::sum(const Tensor& gradients) {
  if (halo_ != nullptr) {
    gather_rows(gradients, halo_->own, own_);
    gather_rows(gradients, halo_->received, received_);
    return exchange(received_, halo_->receives, sent_, halo_->sends);
  }
  fill(all_, 0.0);
  scatter_add_rows(gradients, cut_.gathered, all_);
  pending_ = ctx_.cp->reduce_scatter_async(all_, share_);
}

void ContextRows::finish_sum() {
  pending_->wait();
  if (halo_ == nullptr) return;
  int64_t begin = 0;
  for (const int64_t count : halo_->sends) {  // a row may be for several ranks
    const int64_t end = begin + count;
    scatter_add_rows(sent_.slice(begin, end), halo_->sent.slice(begin, end), own_);
    begin = end;
  }
}

ContextAttention::ContextAttention(const StepContext& ctx, const Tensor& qkv,
                                   const AttentionOptions& options, bool halo)
    : ctx_(ctx), qkv_(qkv), options_(options) {
  heads_ = {qkv.dim(2) - 2 * options.kv_heads, options.kv_heads};
  const int64_t count = std::min(kMostParts, heads_.key_values), in_group = heads_.in_group();
  for (int64_t i = 0; i < count; ++i) {
    const Range kv{heads_.key_values * i / count, heads_.key_values * (i + 1) / count};
    parts_.push_back({{kv.begin * in_group, kv.end * in_group},
                      kv,
                      {ctx, *ctx.cut, qkv.dim(1), 2 * kv.size() * qkv.dim(3), qkv.dtype(), halo}});
    load(parts_.back());
  }
  if (!parts_.empty()) parts_[0].rows.gather();
}

void ContextAttention::load(const Part& part) const {
  const int64_t d = qkv_.dim(3), columns = part.key_values.size() * d;
  const int64_t keys = (heads_.queries + part.key_values.begin) * d;
  copy_columns(rows_of_heads(qkv_), keys, part.rows.own(), 0, columns);
  copy_columns(rows_of_heads(qkv_), keys + heads_.key_values * d, part.rows.own(), columns,
               columns);
}

void ContextAttention::store(const Part& part, const Tensor& heads) const {
  const int64_t d = qkv_.dim(3), columns = part.key_values.size() * d;
  const int64_t keys = (heads_.queries + part.key_values.begin) * d;
  copy_columns(part.rows.own(), 0, rows_of_heads(heads), keys, columns);
  copy_columns(part.rows.own(), columns, rows_of_heads(heads), keys + heads_.key_values * d,
               columns);
}

Tensor ContextAttention::take(size_t i) {
  Part& part = parts_[i];
  const Tensor rows = part.rows.finish_gather();
  if (i + 1 < parts_.size()) parts_[i + 1].rows.gather();
  return rows.view({1, rows.dim(0), 2 * part.key_values.size(), qkv_.dim(3)});
}

Tensor ContextAttention::heads_of(const Tensor& x, Range range) const {
  const Tensor part = ctx_.arena.allocate({1, x.dim(1), range.size(), x.dim(3)}, x.dtype());
  copy_columns(rows_of_heads(x), range.begin * x.dim(3), rows_of_heads(part), 0,
               range.size() * x.dim(3));
  return part;
}

AttentionOptions ContextAttention::options_of(const Part& part, const Tensor& key_values) const {
  AttentionOptions options = options_;
  options.memory.key_values = key_values;
  options.kv_heads = part.key_values.size();
  options.first_head += part.queries.begin;
  if (options.position_bias.defined()) {
    options.position_bias = options.position_bias.slice(part.queries.begin, part.queries.end);
  }
  return options;
}

Tensor ContextAttention::log_sum_exp_of(const Part& part, const Tensor& log_sum_exp) {
  const int64_t heads = log_sum_exp.dim(1), rows = log_sum_exp.dim(2);
  return log_sum_exp.view({heads, rows})
      .slice(part.queries.begin, part.queries.end)
      .view({1, part.queries.size(), rows});
}

void ContextAttention::forward(Tensor out, Tensor log_sum_exp) {
  const int64_t d = out.dim(3);
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    const Arena::Scope scope(ctx_.arena);
    const Tensor key_values = take(i), queries = heads_of(qkv_, part.queries);
    const Tensor of_part = ctx_.arena.allocate(queries.shape(), out.dtype());
    attention_forward(queries, options_of(part, key_values), of_part,
                      log_sum_exp_of(part, log_sum_exp));
    copy_columns(rows_of_heads(of_part), 0, rows_of_heads(out), part.queries.begin * d,
                 part.queries.size() * d);
  }
}

void ContextAttention::backward(const Tensor& dout, const Tensor& out, const Tensor& log_sum_exp,
                                Tensor dqkv, Tensor dposition_bias) {
  const int64_t d = out.dim(3);
  for (size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    const Arena::Scope scope(ctx_.arena);
    const Tensor key_values = take(i), queries = heads_of(qkv_, part.queries);
    const Tensor dqueries = ctx_.arena.allocate(queries.shape(), dqkv.dtype());
    const Tensor dkey_values = ctx_.arena.allocate(key_values.shape(), dqkv.dtype());
    Tensor dbias;
    if (dposition_bias.defined()) {
      dbias = dposition_bias.slice(part.queries.begin, part.queries.end);
    }
    attention_backward(heads_of(dout, part.queries), queries, heads_of(out, part.queries),
                       log_sum_exp_of(part, log_sum_exp), options_of(part, key_values), dqueries,
                       dbias, dkey_values);
    copy_columns(rows_of_heads(dqueries), 0, rows_of_heads(dqkv), part.queries.begin * d,
                 part.queries.size() * d);
    part.rows.sum(rows_of_heads(dkey_values));
  }
  for (Part& part : parts_) {
    part.rows.finish_sum();
    store(part, dqkv);
  }
}

}  // namespace tessera
