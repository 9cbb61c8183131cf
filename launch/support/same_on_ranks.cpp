#include "launch/support/same_on_ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <utility>

#include "launch/support/files/checksum.h"
#include "launch/support/text/json.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

constexpr size_t kMostNames = 8;
constexpr size_t kLongestValue = 200;

std::string as_text(const std::vector<NamedValue>& values) {
  Json json = Json::array();
  for (const auto& [name, value] : values) json.push_back({name, value});
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);  // paths may be invalid UTF-8
}

bool all_have(Communicator& world, const std::string& text) {
  const auto hash = std::bit_cast<int64_t>(hash_of(std::as_bytes(std::span(text))));
  std::array<int64_t, 2> most = {hash, ~hash};  // the second yields ~ of the smallest hash
  world.all_reduce(Tensor(most.data(), {2}, DType::i64, kCpu), ReduceOp::max);
  return most[0] == ~most[1];
}

/// "rank 3", "ranks 0-2, 5"
std::string ranks_text(const std::vector<size_t>& ranks) {
  std::vector<std::string> runs;
  for (size_t begin = 0; begin < ranks.size();) {
    size_t end = begin + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    runs.push_back(end - begin == 1 ? std::to_string(ranks[begin])
                                    : fmt::format("{}-{}", ranks[begin], ranks[end - 1]));
    begin = end;
  }
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(runs, ", "));
}

std::string shortened(std::string value) {
  if (value.size() <= kLongestValue) return value;
  value.resize(kLongestValue);
  return value + "...";
}

/// A name and the ranks that have each value, ordered by the first rank with that value.
struct Difference {
  std::string name;
  std::vector<std::pair<std::string, std::vector<size_t>>> values;

  void add(const std::string& value, size_t rank) {
    const auto known = std::ranges::find(values, value, &decltype(values)::value_type::first);
    if (known != values.end()) {
      known->second.push_back(rank);
    } else {
      values.push_back({value, {rank}});
    }
  }

  std::string text() const {
    std::vector<std::string> parts;
    for (const auto& [value, ranks] : values) {
      parts.push_back(fmt::format("{} on {}", shortened(value), ranks_text(ranks)));
    }
    return fmt::format("{} is {}", name, fmt::join(parts, ", but "));
  }
};

std::string value_of(const Json& values, const std::string& name) {
  for (const Json& entry : values) {
    if (entry[0] == name) return entry[1].get<std::string>();
  }
  return "not given";
}

/// `texts` contains as_text() of every rank's values.
std::vector<Difference> find_differences(const std::vector<std::string>& texts) {
  std::vector<Json> ranks;
  std::vector<std::string> names;
  for (const std::string& text : texts) {
    ranks.push_back(parse_json(text, "the values of a rank"));
    for (const Json& entry : ranks.back()) {
      auto name = entry[0].get<std::string>();
      if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
    }
  }
  std::vector<Difference> differences;
  for (const std::string& name : names) {
    Difference difference{name, {}};
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      difference.add(value_of(ranks[rank], name), rank);
    }
    if (difference.values.size() > 1) differences.push_back(std::move(difference));
  }
  return differences;
}

}  // namespace

void require_same_on_ranks(Communicator& world, const std::vector<NamedValue>& values,
                           std::string_view advice) {
  const std::string text = as_text(values);
  if (all_have(world, text)) return;
  // Every rank has all texts, so all compute the same message.
  const std::vector<Difference> differences = find_differences(all_gather_strings(world, text));
  std::vector<std::string> said;
  for (const Difference& difference : differences) {
    if (said.size() == kMostNames) {
      said.push_back(fmt::format("and {} more differ", differences.size() - kMostNames));
      break;
    }
    said.push_back(difference.text());
  }
  throw SharedError(
      fmt::format("the ranks do not belong together: {}. {}", fmt::join(said, "; "), advice));
}

}  // namespace tessera
