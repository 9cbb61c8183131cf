#include "launch/train/diagnosis/step_diagnosis.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/ops/elementwise.h"
#include "launch/train/diagnosis/not_finite_watch.h"
#include "models/architecture.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

constexpr size_t kMostNamed = 8;

/// "3, 5, 7", or the first few of many.
template <typename Items>
std::string list_of(const Items& items) {
  const size_t shown = std::min(items.size(), kMostNamed);
  const std::string text = fmt::format(
      "{}", fmt::join(items.begin(), items.begin() + static_cast<ptrdiff_t>(shown), ", "));
  return shown == items.size() ? text : fmt::format("{} and {} more", text, items.size() - shown);
}

/// Runs micro-batches without graphs, so that the watch sees each op.
class WatchedMicroSteps final : public MicroStepRunner {
 public:
  /// The first tensor that is not finite, and its micro-batch.
  struct Found {
    int64_t micro_batch;
    NotFiniteTensor tensor;
  };

  WatchedMicroSteps(const StepParts& parts, NotFiniteWatch& watch) : parts_(parts), watch_(watch) {}

  void run(const StepContext& ctx, const TokenBatch& batch, const LossWeights& weights,
           const LossSums& sums) override {
    watched(ctx, [&] { parts_.model.train(ctx, batch, weights, sums); });
  }
  Tensor embed(const StepContext& ctx, const TokenBatch& batch, float length) override {
    Tensor embeddings;
    watched(ctx, [&] { embeddings = parts_.model.embed(ctx, batch, length); });
    return embeddings;
  }
  void embed_backward(const StepContext& ctx, const TokenBatch& batch,
                      const Tensor& gradient) override {
    watched(ctx, [&] { parts_.model.embed_backward(ctx, batch, gradient); });
  }

  const std::optional<Found>& found() const { return found_; }

 private:
  template <typename Pass>
  void watched(const StepContext& ctx, Pass&& pass) {
    {
      const NotFiniteWatch::Scope scope(watch_);
      pass();
    }
    if (found_ || !watch_.found()) return;
    const int64_t first = parts_.batches.global_rows(0).begin;
    found_ = Found{(ctx.first_sequence - first) / parts_.config.batch.micro, *watch_.found()};
  }

  const StepParts& parts_;
  NotFiniteWatch& watch_;
  std::optional<Found> found_;
};

/// The first parameter with a value that is not finite on this rank.
std::optional<std::string> not_finite_weight(const OptimizerState& state) {
  const ParameterStore& store = state.store();
  const FiniteCheck check(store.device());
  for (const Parameter& parameter : store.parameters()) {
    const Tensor values = store.keeps_values(parameter) ? parameter.real_part(parameter.value())
                                                        : state.of(parameter).value;
    if (!check.is_finite(values)) return parameter.name;
  }
  return std::nullopt;
}

/// As above, of the gradients that it updates weights with.
std::optional<std::string> not_finite_gradient(const OptimizerState& state) {
  const FiniteCheck check(state.store().device());
  for (const Parameter& parameter : state.store().parameters()) {
    if (!parameter.frozen && !check.is_finite(state.of(parameter).grad)) return parameter.name;
  }
  return std::nullopt;
}

/// The documents of a micro-batch that are not finite by themselves, on any rank of its samples;
/// none without a micro-batch. Collective over the world.
std::vector<std::string> bad_documents(const StepParts& parts, int64_t step, LoadedStep& loaded,
                                       std::optional<int64_t> micro_batch) {
  if (traits_of(parts.config.model).texts_of_sample > 0) return {};  // their loss compares texts
  const int64_t i = micro_batch.value_or(0);
  const TokenBatch host = loaded.on_host(i);
  const int64_t count = micro_batch ? host.num_documents() : 0;
  const OwnedTensor sums({LossSums::kCount}, DType::f64, parts.arena.device());
  StepContext ctx = parts.step.context_of(step, loaded, i);
  ctx.reducer = nullptr;
  NotFiniteWatch watch(parts.state.store());
  std::string bad(static_cast<size_t>(count), ' ');
  const int64_t passes = most_documents(parts.groups, count);
  for (int64_t d = 0; d < passes; ++d) {
    parts.arena.reset();
    parts.state.store().invalidate_grads();  // otherwise those of the documents before count
    watch.reset();
    const DocumentBatch document(host, d < count ? d : host.num_documents(), parts.arena.device(),
                                 loaded.context());
    const NotFiniteWatch::Scope scope(watch);
    parts.model.train(ctx, document.batch(), {1.0f, 1.0f}, {sums.tensor});
    if (d < count && watch.found()) bad[static_cast<size_t>(d)] = 'x';
  }
  parts.arena.reset();
  std::set<size_t> numbers;
  for (Communicator* group : {parts.groups.tp.get(), parts.groups.cp.get()}) {
    for (const std::string& of_rank : all_gather_strings(*group, bad)) {
      for (size_t d = 0; d < of_rank.size(); ++d) {
        if (of_rank[d] == 'x') bad[d] = 'x';
      }
    }
  }
  for (size_t d = 0; d < bad.size(); ++d) {
    if (bad[d] == 'x') numbers.insert(d);
  }
  const std::vector<DocumentName> documents = loaded.documents(i);
  std::vector<DocumentName> found;
  for (const size_t d : numbers) found.push_back(documents[d]);
  return names_of(found);
}

/// Every rank's JSON, in rank order.
std::vector<Json> gather(Communicator& group, const Json& own) {
  std::vector<Json> all;
  for (const std::string& text : all_gather_strings(group, own.dump())) {
    all.push_back(parse_json(text, "a rank's finding"));
  }
  return all;
}

/// Those of all ranks that compute the same samples, by context and tensor rank.
std::vector<Json> gather_of_samples(const ParallelGroups& groups, const Json& own) {
  std::vector<Json> all;
  for (const Json& of_tensor_ranks : gather(*groups.cp, Json(gather(*groups.tp, own)))) {
    all.insert(all.end(), of_tensor_ranks.begin(), of_tensor_ranks.end());
  }
  return all;
}

/// The lowest order of the first micro-batch with one, and its place among these ranks.
struct First {
  int rank = 0;
  int64_t micro_batch = 0;
  Json json;
};

std::optional<First> first_of(const std::vector<Json>& ranks) {
  std::optional<First> first;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const Json& json = ranks[rank];
    if (!json.contains("tensor")) continue;
    const auto key = [](const Json& of) {
      return std::pair(of["micro_batch"].get<int64_t>(), of["order"].get<int64_t>());
    };
    if (first && key(first->json) <= key(json)) continue;
    first = First{static_cast<int>(rank), json["micro_batch"].get<int64_t>(), json};
  }
  return first;
}

/// Calls `set` with the value of `key` on the first rank that has it.
std::optional<std::string> first_text(const std::vector<Json>& ranks, const char* key) {
  for (const Json& json : ranks) {
    if (json.contains(key)) return json[key].get<std::string>();
  }
  return std::nullopt;
}

StepDiagnosis diagnose(const StepParts& parts, int64_t step, int64_t first_place) {
  const ParallelGroups& groups = parts.groups;
  NotFiniteWatch watch(parts.state.store());
  WatchedMicroSteps runner(parts, watch);
  LoadedStep loaded(parts, first_place);
  Json own = Json::object();
  if (const auto weight = not_finite_weight(parts.state)) own["weight"] = *weight;
  parts.step.compute_gradients(step, loaded, runner);
  if (const auto gradient = not_finite_gradient(parts.state)) own["gradient"] = *gradient;
  if (const auto& found = runner.found()) {
    own["micro_batch"] = found->micro_batch;
    own["order"] = found->tensor.order;
    own["tensor"] = found->tensor.tensor;
    own["place"] = found->tensor.place;
  }
  std::optional<int64_t> micro_batch;
  if (const auto first = first_of(gather_of_samples(groups, own))) {
    micro_batch = first->micro_batch;
    own["first"] = first->rank == groups.cp->rank() * groups.tp->size() + groups.tp->rank();
    own["samples"] = loaded.samples(*micro_batch);
  }
  std::vector<Json> ranks = gather(groups.world, own);
  StepDiagnosis diagnosis;
  diagnosis.weight = first_text(ranks, "weight");
  if (!diagnosis.weight) {
    own["documents"] = bad_documents(parts, step, loaded, micro_batch);
    ranks = gather(groups.world, own);
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const Json& json = ranks[rank];
    if (!json.value("first", false)) continue;
    StepDiagnosis::Found found;
    found.rank = static_cast<int>(rank);
    found.data_rank = groups.grid.index_of(found.rank, Axis::data);
    found.micro_batch = json["micro_batch"].get<int64_t>();
    found.tensor = json["tensor"].get<std::string>();
    found.place = json["place"].get<std::string>();
    found.samples = json["samples"].get<std::vector<int64_t>>();
    if (json.contains("documents")) {
      found.documents = json["documents"].get<std::vector<std::string>>();
    }
    diagnosis.found.push_back(std::move(found));
  }
  if (diagnosis.found.empty()) diagnosis.gradient = first_text(ranks, "gradient");
  return diagnosis;
}

std::string text_of(const StepDiagnosis::Found& found) {
  std::string text = fmt::format(
      "The first tensor that is not finite is {}, in {}, on rank {}, in micro-batch {} of data "
      "rank {}, with sample{} {}",
      found.tensor, found.place, found.rank, found.micro_batch, found.data_rank,
      found.samples.size() == 1 ? "" : "s", list_of(found.samples));
  if (!found.documents.empty()) {
    text += fmt::format(". Not finite by itself: {}", list_of(found.documents));
  }
  return text;
}

}  // namespace

std::string StepDiagnosis::text() const {
  if (problem) return fmt::format("The step could not be computed again: {}", *problem);
  std::string text;
  if (weight) text = fmt::format("{} was not finite before the step. ", *weight);
  if (!found.empty()) {
    text += text_of(found.front());
    std::vector<int> others;
    for (size_t i = 1; i < found.size(); ++i) others.push_back(found[i].data_rank);
    if (others.empty()) return text;
    return text +
           fmt::format(". Also on data rank{} {}", others.size() == 1 ? "" : "s", list_of(others));
  }
  if (gradient) {
    return text + fmt::format(
                      "All ranks' losses and gradients are finite, but not the sum of the "
                      "gradient of {} over the ranks",
                      *gradient);
  }
  return text +
         "Computed again, the step is finite: a memory, a GPU or a link may be faulty (see "
         "train.check_replicas_interval)";
}

Json StepDiagnosis::json() const {
  Json all = Json::array();
  for (const Found& one : found) {
    all.push_back({{"data_rank", one.data_rank},
                   {"rank", one.rank},
                   {"micro_batch", one.micro_batch},
                   {"tensor", one.tensor},
                   {"place", one.place},
                   {"samples", one.samples},
                   {"documents", one.documents}});
  }
  Json json = {{"first_not_finite", all}};
  if (weight) json["weight"] = *weight;
  if (gradient) json["sum_of_gradient"] = *gradient;
  if (problem) json["problem"] = *problem;
  return json;
}

StepDiagnosis diagnose_step(const StepParts& parts, int64_t step, int64_t first_place) {
  try {
    return diagnose(parts, step, first_place);
  } catch (const SharedError& error) {  // of loading, on all ranks
    StepDiagnosis diagnosis;
    diagnosis.problem = error.what();
    return diagnosis;
  }
}

}  // namespace tessera
