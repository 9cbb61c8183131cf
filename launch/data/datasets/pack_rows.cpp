#include "launch/data/datasets/pack_rows.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/error.h"

namespace tessera {
namespace {

/// Returns the pieces by descending length, and by index for equal lengths. A counting sort, in
/// linear time.
std::vector<int64_t> by_length(std::span<const int32_t> lengths, int64_t capacity) {
  std::vector<int64_t> place(static_cast<size_t>(capacity) + 1,
                             0);  // where the next piece of each length goes
  for (const int32_t length : lengths) {
    require(1 <= length && length <= capacity, "a piece of {} tokens does not fit into rows of {}",
            length, capacity);
    ++place[static_cast<size_t>(capacity - length)];
  }
  std::exclusive_scan(place.begin(), place.end(), place.begin(), int64_t{0});
  std::vector<int64_t> order(lengths.size());
  for (size_t i = 0; i < lengths.size(); ++i) {
    const auto next = place[static_cast<size_t>(capacity - lengths[i])]++;
    order[static_cast<size_t>(next)] = static_cast<int64_t>(i);
  }
  return order;
}

/// Returns the row of each piece and the number of rows.
std::pair<std::vector<int64_t>, int64_t> best_fit(std::span<const int32_t> lengths,
                                                  int64_t capacity) {
  std::vector<int64_t> row_of(lengths.size());
  std::map<int64_t, std::vector<int64_t>> with_room;  // rows by free space
  int64_t num_rows = 0;
  for (const int64_t piece : by_length(lengths, capacity)) {
    const int64_t length = lengths[static_cast<size_t>(piece)];
    int64_t row = num_rows, room = capacity;
    if (const auto found = with_room.lower_bound(length); found != with_room.end()) {
      row = found->second.back();
      room = found->first;
      found->second.pop_back();
      if (found->second.empty()) with_room.erase(found);
    } else {
      ++num_rows;
    }
    row_of[static_cast<size_t>(piece)] = row;
    if (room > length) with_room[room - length].push_back(row);
  }
  return {std::move(row_of), num_rows};
}

}  // namespace

std::span<const int64_t> PackedRows::row(int64_t r) const {
  const auto begin = static_cast<size_t>(first[static_cast<size_t>(r)]);
  const auto end = static_cast<size_t>(first[static_cast<size_t>(r) + 1]);
  return std::span(pieces).subspan(begin, end - begin);
}

PackedRows pack_rows(std::span<const int32_t> lengths, int64_t capacity) {
  const auto [row_of, num_rows] = best_fit(lengths, capacity);
  // Renumber rows by their first pieces.
  std::vector<int64_t> number(static_cast<size_t>(num_rows), -1);
  PackedRows rows;
  rows.first.assign(static_cast<size_t>(num_rows) + 1, 0);
  int64_t next = 0;
  for (const int64_t row : row_of) {
    int64_t& numbered = number[static_cast<size_t>(row)];
    if (numbered < 0) numbered = next++;
    ++rows.first[static_cast<size_t>(numbered) + 1];
  }
  std::partial_sum(rows.first.begin(), rows.first.end(), rows.first.begin());
  std::vector<int64_t> place(rows.first.begin(), rows.first.end() - 1);
  rows.pieces.resize(lengths.size());
  for (size_t piece = 0; piece < row_of.size(); ++piece) {
    const auto row = static_cast<size_t>(number[static_cast<size_t>(row_of[piece])]);
    rows.pieces[static_cast<size_t>(place[row]++)] = static_cast<int64_t>(piece);
  }
  return rows;
}

}  // namespace tessera
