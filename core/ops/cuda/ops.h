#pragma once

#include <cstdint>

#include "core/ops/adamw.h"
#include "core/ops/clip.h"
#include "core/ops/dropout.h"
#include "core/ops/factor.h"
#include "core/ops/gelu.h"
#include "core/range.h"
#include "core/tensor.h"

/// The ops on a GPU's memory. Contracts are those of core/ops/<op>.h, whose functions have checked
/// the arguments. They enqueue kernels on the calling thread's stream and return.
namespace tessera::cuda {

void layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, float eps,
                        Tensor y, Tensor mean, Tensor rstd);
void bias_dropout_add_norm(const Tensor& x, const Tensor& bias, const Tensor& residual,
                           const Dropout& dropout, Tensor sum, const Tensor& weight,
                           const Tensor& norm_bias, float eps, Tensor y, Tensor mean, Tensor rstd);
void layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                         const Tensor& mean, const Tensor& rstd, const Tensor& residual, Tensor dx,
                         Tensor dweight, Tensor dbias);

void gelu_forward(const Tensor& x, Gelu kind, Tensor y);
void gelu_backward(const Tensor& dy, const Tensor& x, Gelu kind, Tensor dx);

void embedding_forward(const Tensor& ids, const Tensor& table, Range held, Tensor out);
void embedding_backward(const Tensor& ids, const Tensor& dout, Range held, Tensor dtable);
void embedding_add(const Tensor& x, const Tensor& ids, const Tensor& table, Tensor out);

void gather_rows(const Tensor& x, const Tensor& rows, int64_t first, Tensor out);
void scatter_add_rows(const Tensor& dout, const Tensor& rows, int64_t first, Tensor dx);
void argmax_rows(const Tensor& x, Tensor out);
void gather_ints(const Tensor& values, const Tensor& rows, Tensor out);
void count_equal(const Tensor& a, const Tensor& b, Tensor count);

void join_columns(const Tensor& parts, Tensor out);

void store_key_values(const Tensor& qkv, int64_t first, Tensor keys, Tensor values);

void fill_positions(int64_t first, Tensor positions);

void tanh_forward(const Tensor& x, Tensor y);
void tanh_backward(const Tensor& dy, const Tensor& y, Tensor dx);

void cross_entropy_statistics(const Tensor& logits, const Tensor& targets, int64_t first,
                              int64_t valid, Tensor row_max, Tensor row_sum, Tensor target_logit);
void cross_entropy_gradient(Tensor logits, const Tensor& targets, int64_t first, int64_t valid,
                            const Tensor& log_sum_exp, const Factor& scale);
void rescale_sum_exp(const Tensor& row_max, const Tensor& global_max, Tensor row_sum);
void cross_entropy_loss(const Tensor& global_max, const Tensor& sum_exp, const Tensor& target_logit,
                        const Tensor& targets, Tensor log_sum_exp, Tensor loss_sum);
void cross_entropy_correct(const Tensor& global_max, const Tensor& target_logit,
                           const Tensor& targets, Tensor correct);

/// y = dropout(x), which is also its gradient's rule. Only with an active dropout.
void dropout(const Tensor& x, const Dropout& dropout, Tensor y);
void bias_dropout_add(const Tensor& x, const Tensor& bias, const Tensor& residual,
                      const Dropout& dropout, Tensor out);

void rotary_table(const Tensor& positions, float base, Tensor table);
/// Turns queries and keys by the table's angles × direction, which is 1 or −1.
void rotary(const Tensor& table, float direction, Tensor qkv);

void adamw_step(const AdamW& settings, const Tensor& grad_scale, const Tensor& grad, Tensor exp_avg,
                Tensor exp_avg_sq, Tensor master, Tensor value);
void round_stochastically(const Tensor& x, const StochasticRounding& rounding, Tensor y);
void clip_scale(int64_t step, double max_norm, const Tensor& squares, const Tensor& losses,
                const StepRecord& record, Tensor grad_scale);

void fill(Tensor tensor, double value);
void copy(const Tensor& source, Tensor destination);
void add(const Tensor& a, const Tensor& b, Tensor out);

void add_sum_of_squares(const Tensor& x, Tensor out);
void column_sum(const Tensor& x, Tensor out);

}  // namespace tessera::cuda
