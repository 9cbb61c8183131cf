#include "launch/data/sampling/blend_order.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace tessera {
namespace {

__extension__ using uint128 = unsigned __int128;  // a place times a weight

}  // namespace

BlendOrder::BlendOrder(std::span<const double> weights) {
  require(!weights.empty(), "a blend has at least one part");
  double largest = 0.0, sum = 0.0;
  for (const double weight : weights) {
    require(std::isfinite(weight) && weight > 0.0,
            "the weight of a part is {}, but must be a positive finite number", weight);
    largest = std::max(largest, weight);
  }
  for (const double weight : weights) sum += weight / largest;
  for (const double weight : weights) {
    const double units = std::floor(weight / largest / sum * 0x1p62);
    before_.push_back(before_.back() + static_cast<uint64_t>(units));
  }
}

int64_t BlendOrder::count_first(size_t begin, size_t middle, size_t end, int64_t places) const {
  const uint64_t first = before_[middle] - before_[begin], all = before_[end] - before_[begin];
  if (all == 0) return places;  // none of the parts is heavy enough for a turn
  return static_cast<int64_t>((uint128{first} * static_cast<uint64_t>(places) + all / 2) / all);
}

BlendOrder::Turn BlendOrder::at(int64_t place) const {
  require(place >= 0, "a blend has no place {}", place);
  size_t begin = 0, end = before_.size() - 1;
  while (end - begin > 1) {
    const size_t middle = begin + (end - begin) / 2;
    const int64_t before = count_first(begin, middle, end, place);
    const bool is_first = count_first(begin, middle, end, place + 1) > before;
    (is_first ? end : begin) = middle;
    place = is_first ? before : place - before;
  }
  return {begin, place};
}

std::vector<int64_t> BlendOrder::turns(int64_t places) const {
  std::vector<int64_t> turns;
  add_turns(0, before_.size() - 1, places, turns);
  return turns;
}

void BlendOrder::add_turns(size_t begin, size_t end, int64_t places,
                           std::vector<int64_t>& turns) const {
  if (end - begin == 1) return turns.push_back(places);
  const size_t middle = begin + (end - begin) / 2;
  const int64_t first = count_first(begin, middle, end, places);
  add_turns(begin, middle, first, turns);
  add_turns(middle, end, places - first, turns);
}

double BlendOrder::share(size_t part) const {
  return static_cast<double>(before_[part + 1] - before_[part]) /
         static_cast<double>(before_.back());
}

}  // namespace tessera
