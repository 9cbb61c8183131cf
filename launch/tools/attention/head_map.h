#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/tools/attention/attention_report.h"

namespace tessera {

/// Whether any query sees key s.
bool is_seen(const SequenceAttention& sequence, size_t s);

/// Draws the heads of one sequence as SVG: queries down, keys across. What all heads share, the
/// labels and the hatching of hidden cells, is in the page once.
class HeadMaps {
 public:
  /// `id` is the prefix of the elements' ids. `sequence` must have tokens, and outlive this.
  HeadMaps(const SequenceAttention& sequence, std::string id);

  /// Definitions that the pictures refer to; must be in the page.
  std::string definitions() const;

  /// The full map of head `index` in the report, with labels and, for a few tokens, numbers.
  std::string map(size_t index) const;

  double map_width() const;  ///< pixels

  /// A small version of it without labels.
  std::string thumbnail(size_t index) const;

 private:
  std::string hidden_path(const std::vector<uint8_t>& hidden) const;
  /// The id of the path of what a head must not see.
  std::string hidden_id(const HeadAttention& head) const;
  std::string label(size_t token, bool query) const;
  std::string numbers(const HeadAttention& head) const;

  const SequenceAttention& sequence_;
  std::string id_;
  int64_t count_;
  std::vector<std::string> labels_;  // as shown, not escaped
  double cell_ = 0.0, font_ = 0.0;   // pixels
  double left_ = 0.0, top_ = 0.0, right_ = 0.0;
};

}  // namespace tessera
