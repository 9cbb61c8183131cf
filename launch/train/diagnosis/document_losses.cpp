#include "launch/train/diagnosis/document_losses.h"

#include <algorithm>
#include <limits>

#include "core/ops/elementwise.h"
#include "launch/support/text/json.h"
#include "launch/train/evaluation_pass.h"
#include "models/architecture.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

/// JSON has no NaN.
Json number_json(double value) { return value; }
double number_of(const Json& json) {
  return json.is_number() ? json.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

/// Adds those of a micro-batch.
void add_losses(const StepParts& parts, int64_t step, LoadedStep& loaded, int64_t i, Json& losses) {
  const TokenBatch host = loaded.on_host(i);
  const std::vector<DocumentName> names = loaded.documents(i);
  const int64_t count = host.num_documents();
  // The last row is for empty passes.
  const OwnedTensor sums({count + 1, LossSums::kCount}, DType::f64, parts.arena.device());
  const OwnedTensor found({count + 1, LossSums::kCount}, DType::f64);
  fill(sums.tensor, 0.0);
  StepContext ctx = parts.step.context_of(step, loaded, i);
  ctx.reducer = nullptr;
  ctx.recompute = Recompute::block;  // no backward pass reads what a block computes
  const int64_t passes = most_documents(parts.groups, count);
  for (int64_t pass = 0; pass < passes; ++pass) {
    parts.arena.reset();
    const int64_t d = std::min(pass, count);
    const DocumentBatch document(host, d, parts.arena.device(), loaded.context());
    const Tensor predictions =
        allocate_predictions(parts.arena, parts.config.model, document.batch());
    parts.model.evaluate(ctx, document.batch(),
                         {sums.tensor.slice(d, d + 1).view({LossSums::kCount})}, predictions);
  }
  parts.arena.reset();
  copy(sums.tensor, found.tensor);
  parts.groups.cp->all_reduce(found.tensor);
  for (int64_t d = 0; d < count; ++d) {
    TargetCounts counts;
    counts.add(DocumentBatch(host, d).batch());
    const Losses of_document =
        mean_losses({found.tensor.slice(d, d + 1).view({LossSums::kCount})}, counts);
    const DocumentName& name = names[static_cast<size_t>(d)];
    losses.push_back({{"data_rank", parts.groups.dp->rank()},
                      {"name", name.text()},
                      {"sample", name.sample},
                      {"token_targets", counts.token_targets},
                      {"document_targets", counts.document_targets},
                      {"token", number_json(of_document.token)},
                      {"document", number_json(of_document.document)}});
  }
}

}  // namespace

std::vector<DocumentLoss> document_losses(const StepParts& parts, int64_t step,
                                          int64_t first_place) {
  if (traits_of(parts.config.model).texts_of_sample > 0) return {};
  LoadedStep loaded(parts, first_place);
  all_or_none(parts.groups.world, [&] { loaded.load(); });
  parts.step.round_values(step);
  Json own = Json::array();
  for (int64_t i = 0; i < loaded.size(); ++i) add_losses(parts, step, loaded, i, own);
  std::vector<DocumentLoss> losses;
  for (const std::string& text : all_gather_strings(*parts.groups.dp, own.dump())) {
    for (const Json& one : parse_json(text, "a rank's losses")) {
      DocumentLoss loss;
      loss.data_rank = one["data_rank"].get<int>();
      loss.name = one["name"].get<std::string>();
      loss.sample = one["sample"].get<int64_t>();
      loss.token_targets = one["token_targets"].get<int64_t>();
      loss.document_targets = one["document_targets"].get<int64_t>();
      loss.losses = {number_of(one["token"]), number_of(one["document"])};
      losses.push_back(std::move(loss));
    }
  }
  return losses;
}

}  // namespace tessera
