#include "launch/train/diagnosis/not_finite_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace tessera {
namespace {

/// These write −∞ for logits beyond a rank's vocabulary, and +∞ for a text's similarity to itself.
/// Their inputs have been checked, and so are the results computed from their outputs.
constexpr std::string_view kInfiniteOutputs[] = {"cross_entropy_statistics", "rescale_sum_exp"};

PlaceStack& places_of(PlaceStack& own) {
  PlaceStack* current = PlaceStack::current();
  return current != nullptr ? *current : own;
}

/// The names of the open ranges from `begin` on.
std::vector<std::string> names_from(const PlaceStack& places, uint32_t begin) {
  std::vector<std::string> names;
  const uint32_t end = std::min(places.depth.load(), PlaceStack::kDepth);
  for (uint32_t i = begin; i < end; ++i) names.emplace_back(places.names[i].data());
  return names;
}

}  // namespace

NotFiniteWatch::NotFiniteWatch(const ParameterStore& store)
    : store_(store), check_(store.device()) {}

NotFiniteWatch::Scope::Scope(NotFiniteWatch& watch)
    : places_(&places_of(watch.own_places_)), outputs_(&watch) {
  watch.outer_places_ = places_of(watch.own_places_).depth.load();
}

void NotFiniteWatch::reset() {
  order_ = 0;
  found_.reset();
}

std::string NotFiniteWatch::name_of(const Tensor& output, const std::string& op) const {
  const auto* at = static_cast<const char*>(output.raw());
  for (const Parameter& parameter : store_.parameters()) {
    if (!parameter.has_grad()) continue;
    const auto* begin = static_cast<const char*>(parameter.grad().raw());
    if (begin <= at && at < begin + parameter.grad().bytes()) {
      return fmt::format("the gradient of {}", parameter.name);
    }
  }
  return fmt::format("the output of {}, {} {}", op, to_string(output.dtype()),
                     to_string(output.shape()));
}

void NotFiniteWatch::wrote(const Tensor& output) {
  ++order_;
  if (found_) return;
  std::vector<std::string> names = names_from(places_of(own_places_), outer_places_);
  const std::string op = names.empty() ? "an op" : names.back();
  if (std::ranges::find(kInfiniteOutputs, op) != std::end(kInfiniteOutputs)) return;
  if (check_.is_finite(output)) return;
  if (!names.empty()) names.pop_back();
  found_ = NotFiniteTensor{name_of(output, op), fmt::format("{}", fmt::join(names, "/")), order_};
}

}  // namespace tessera
