#include "models/model.h"

#include "core/error.h"
#include "models/bert.h"
#include "models/gpt.h"

namespace tessera {

std::unique_ptr<Model> make_model(const ModelConfig& config, ParameterStore& store,
                                  Communicator& tp) {
  if (config.kind == "gpt") return std::make_unique<Gpt>(config, store, tp);
  if (config.kind == "bert") return std::make_unique<Bert>(config, store, tp);
  fail("there is no model of kind '{}': choose gpt or bert", config.kind);
}

}  // namespace tessera
