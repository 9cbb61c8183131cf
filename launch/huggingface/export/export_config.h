#pragma once

#include <string>
#include <vector>

#include "core/dtype.h"
#include "launch/huggingface/model_class.h"
#include "launch/support/text/json.h"

namespace tessera {

/// config.json of a model: everything that defines its function, so that `transformers` computes
/// the same. `token_ids` are ExportedTokenizer::ids; `labels` are the names of a classifier's
/// labels, or empty.
Json export_config(const ModelConfig& model, ModelClass model_class, DType precision,
                   const Json& token_ids, const std::vector<std::string>& labels);

}  // namespace tessera
