#pragma once

#include "core/ops/attention.h"

namespace tessera::cpu {

void attention_forward(const Tensor& qkv, const AttentionOptions& options, Tensor out,
                       Tensor log_sum_exp);
void attention_backward(const Tensor& dout, const Tensor& qkv, const Tensor& out,
                        const Tensor& log_sum_exp, const AttentionOptions& options, Tensor dqkv);
void attention_weights(const Tensor& qkv, const Tensor& log_sum_exp,
                       const AttentionOptions& options, Tensor weights);
void attention_decode(const Tensor& q, const Tensor& keys, const Tensor& values, int64_t length,
                      int64_t window, float scale, Tensor out);

}  // namespace tessera::cpu
