#pragma once

#include <string>
#include <vector>

#include "core/dtype.h"
#include "launch/huggingface/model_class.h"
#include "launch/support/text/json.h"

namespace tessera {

/// config.json of a model: all that decides its function, with which `transformers` computes the
/// same. `token_ids` are ExportedTokenizer::ids; `labels` the names of a classifier's labels, or
/// none.
Json export_config(const ModelConfig& model, ModelClass model_class, DType precision,
                   const Json& token_ids, const std::vector<std::string>& labels);

}  // namespace tessera
