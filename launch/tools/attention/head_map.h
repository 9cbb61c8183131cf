#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launch/tools/attention/attention_report.h"

namespace tessera {

/// Whether any query sees a token of a text.
bool is_seen(const SequenceAttention& sequence, size_t text, size_t token);

/// Draws the heads of one attention of a sequence as SVG: queries down, keys across. What all heads
/// share, the labels and the hatching of hidden cells, is in the page once.
class HeadMaps {
 public:
  /// `id` is the prefix of the elements' ids. `maps`, one of the attentions of `sequence`, must
  /// have queries and keys. Both must outlive this.
  HeadMaps(const SequenceAttention& sequence, const AttentionMaps& maps, std::string id);

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
  std::string query_label(size_t token) const;
  std::string key_label(size_t token) const;
  std::string label(size_t text, size_t token, const std::string& place) const;
  std::string axis_name(size_t text, std::string_view if_alone) const;
  std::string numbers(const HeadAttention& head) const;
  double width() const { return cell_ * static_cast<double>(keys_); }
  double height() const { return cell_ * static_cast<double>(queries_); }

  const SequenceAttention& sequence_;
  const AttentionMaps& maps_;
  std::string id_;
  int64_t queries_, keys_;
  double cell_, font_;  // pixels
  double left_, top_, right_;
};

}  // namespace tessera
