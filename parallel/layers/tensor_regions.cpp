#include "parallel/layers/tensor_regions.h"

#include "core/ops/elementwise.h"
#include "core/ops/rows.h"

namespace tessera {
namespace {

/// Shape of all ranks' shares together. Its first N rows are real; no op reads the others.
Tensor allocate_padded(const StepContext& ctx, const Tensor& like) {
  return ctx.arena.allocate({ctx.rows.parts * ctx.rows.chunk(), like.dim(-1)}, like.dtype());
}

/// This rank's share of `padded`, in place: (chunk, C).
Tensor share_of(const StepContext& ctx, const Tensor& padded) {
  const int64_t begin = ctx.rows.index * ctx.rows.chunk();
  return padded.slice(begin, begin + ctx.rows.chunk());
}

/// The real rows of a share, in the shape of `local`.
Tensor real_rows(const Tensor& share, const Tensor& local) {
  return share.slice(0, local.numel() / local.dim(-1)).view(local.shape());
}

/// A pending sum whose result must be copied out of its scratch memory.
class SumToCopy final : public PendingCollective {
 public:
  SumToCopy(std::unique_ptr<PendingCollective> summing, const Tensor& sum, Tensor out)
      : summing_(std::move(summing)), sum_(sum), out_(out) {}

  void wait() override {
    if (summing_ == nullptr) return;
    summing_->wait();
    summing_ = nullptr;
    copy(sum_, out_);
  }

  bool progress() override {
    if (summing_ != nullptr && !summing_->progress()) return false;
    wait();
    return true;
  }

 private:
  std::unique_ptr<PendingCollective> summing_;  // null once `out_` is written
  Tensor sum_, out_;
};

}  // namespace

AllRows::AllRows(const StepContext& ctx, const Tensor& local, Communicator& tp) : rows_(local) {
  if (!ctx.rows.split()) return;
  const Tensor padded = allocate_padded(ctx, local), share = share_of(ctx, padded);
  copy(local, real_rows(share, local));
  gathering_ = tp.all_gather_async(share, padded);
  rows_ = padded.slice(0, ctx.rows.rows).view(ctx.rows.global_shape_of(local.shape()));
}

const Tensor& AllRows::wait() {
  if (gathering_ != nullptr) gathering_->wait();
  return rows_;
}

RegionSum::RegionSum(const StepContext& ctx, Tensor out, Communicator& tp)
    : tp_(tp), out_(out), part_(out) {
  if (!ctx.rows.split()) return;
  padded_ = allocate_padded(ctx, out);
  share_ = share_of(ctx, padded_);
  part_ = padded_.slice(0, ctx.rows.rows).view(ctx.rows.global_shape_of(out.shape()));
}

std::unique_ptr<PendingCollective> RegionSum::start() {
  if (!padded_.defined()) return tp_.all_reduce_async(out_);
  return std::make_unique<SumToCopy>(tp_.reduce_scatter_async(padded_, share_),
                                     real_rows(share_, out_), out_);
}

Tensor chosen_rows(const StepContext& ctx, const Tensor& local, const Tensor& rows,
                   Communicator& tp) {
  const Tensor x = ctx.arena.allocate({rows.numel(), local.dim(-1)}, local.dtype());
  gather_rows(local, rows, x, ctx.rows.local().begin);
  if (ctx.rows.split()) tp.all_reduce(x);  // each row is zero on all ranks but one
  return x;
}

void chosen_rows_backward(const StepContext& ctx, const Tensor& dx, const Tensor& rows,
                          Tensor dlocal) {
  scatter_add_rows(dx, rows, dlocal, ctx.rows.local().begin);
}

}  // namespace tessera
