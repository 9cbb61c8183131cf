#include "core/ops/cuda/attention/cudnn_plan.h"

#include <cudnn_frontend.h>

#include <unordered_map>

#include "core/cuda/stream.h"
#include "core/error.h"

namespace tessera::cuda {

void AttentionPlan::run(cudnnContext* handle,
                        std::span<const std::pair<AttentionTensor, void*>> tensors,
                        void* workspace) const {
  std::unordered_map<int64_t, void*> pointers(tensors.begin(), tensors.end());
  cudnn_frontend::error_t done = built_.graph->execute(handle, pointers, workspace);
  require(done.is_good(), "cuDNN's attention failed on the GPU: {}", done.get_message());
  bound_queue();
}

}  // namespace tessera::cuda
