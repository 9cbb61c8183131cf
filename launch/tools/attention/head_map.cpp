#include "launch/tools/attention/head_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "launch/support/text/html.h"
#include "launch/tools/attention/heat_colors.h"
#include "launch/tools/attention/heat_png.h"
#include "launch/tools/attention/token_label.h"

namespace tessera {
namespace {

constexpr size_t kLongestLabel = 14;      // characters
constexpr int64_t kMostWithNumbers = 12;  // tokens
constexpr double kSlant = 60.0;           // degrees, of the labels of keys

/// Leaves room for numbers with few tokens, and for labels with up to a hundred.
double cell_size(int64_t count) {
  if (count <= kMostWithNumbers) return 36.0;
  if (count <= 24) return 22.0;
  if (count <= 48) return 15.0;
  if (count <= 128) return 10.0;
  return std::max(2.0, 1200.0 / static_cast<double>(count));
}

/// Width in letters. Three-byte characters, from non-European scripts, count as wider.
double label_width(std::string_view label) {
  double width = 0.0;
  for (const char c : label) {
    const auto byte = static_cast<uint8_t>(c);
    if ((byte & 0xC0) != 0x80) width += byte >= 0xE3 ? 1.7 : 1.0;
  }
  return width;
}

/// The width of the widest label, in letters; at least 1.
double widest_label(const AttentionText& text) {
  double widest = 1.0;
  for (const std::string& token : text.tokens) {
    widest = std::max(widest, label_width(token_label(token, kLongestLabel)));
  }
  return widest;
}

}  // namespace

bool is_seen(const SequenceAttention& sequence, size_t text, size_t token) {
  for (const AttentionMaps& maps : sequence.attentions) {
    if (maps.keys != text) continue;
    const size_t keys = sequence.keys_of(maps).tokens.size();
    for (size_t cell = token; cell < maps.hidden.size(); cell += keys) {
      if (maps.hidden[cell] == 0) return true;
    }
  }
  return false;
}

HeadMaps::HeadMaps(const SequenceAttention& sequence, const AttentionMaps& maps, std::string id)
    : sequence_(sequence),
      maps_(maps),
      id_(std::move(id)),
      queries_(sequence.queries_of(maps).num_tokens()),
      keys_(sequence.keys_of(maps).num_tokens()),
      cell_(cell_size(std::max(queries_, keys_))),
      font_(std::clamp(cell_ * 0.8, 8.5, 13.0)) {
  const auto room = [&](const AttentionText& text) {
    return 0.6 * font_ * widest_label(text) + 8.0;
  };
  const double down = room(sequence.queries_of(maps)), across = room(sequence.keys_of(maps));
  const double slant = kSlant * std::acos(-1.0) / 180.0;
  left_ = std::max(54.0, down);  // room for the names of the axes in the corner
  top_ = std::max(34.0, across * std::sin(slant) + font_ * std::cos(slant));
  right_ = 6.0 + across * std::cos(slant);
}

/// Contiguous hidden cells, row by row, in units of cells.
std::string HeadMaps::hidden_path(const std::vector<uint8_t>& hidden) const {
  std::string path;
  for (int64_t t = 0; t < queries_; ++t) {
    const uint8_t* row = hidden.data() + t * keys_;
    for (int64_t s = 0; s < keys_;) {
      const int64_t begin = s;
      while (s < keys_ && row[s] != 0) ++s;
      if (s > begin) path += fmt::format("M{} {}h{}v1h-{}z", begin, t, s - begin, s - begin);
      while (s < keys_ && row[s] == 0) ++s;
    }
  }
  return path;
}

std::string HeadMaps::hidden_id(const HeadAttention& head) const {
  return id_ + (head.is_local ? "-local-hidden" : "-hidden");
}

std::string HeadMaps::query_label(size_t token) const {
  const double middle = (static_cast<double>(token) + 0.5) * cell_;
  return label(maps_.queries, token,
               fmt::format("x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\"", left_ - 5,
                           top_ + middle + font_ * 0.35));
}

std::string HeadMaps::key_label(size_t token) const {
  const double middle = (static_cast<double>(token) + 0.5) * cell_;
  return label(maps_.keys, token,
               fmt::format("transform=\"translate({:.1f} {:.1f}) rotate(-{})\"",
                           left_ + middle + font_ * 0.2, top_ - 5, kSlant));
}

std::string HeadMaps::label(size_t text, size_t token, const std::string& place) const {
  return fmt::format("<text {}{}>{}</text>", place,
                     is_seen(sequence_, text, token) ? "" : " class=\"unseen\"",
                     escape_html(token_label(sequence_.texts[text].tokens[token], kLongestLabel)));
}

std::string HeadMaps::axis_name(size_t text, std::string_view if_alone) const {
  const std::string& name = sequence_.texts[text].name;
  return name.empty() ? std::string(if_alone) : escape_html(name);
}

std::string HeadMaps::definitions() const {
  // Hatching sizes are in cells, which are scaled up afterwards.
  std::string svg = fmt::format(
      "<svg class=\"defs\" aria-hidden=\"true\"><defs><pattern id=\"{0}-hatch\" width=\"{1:.4f}\" "
      "height=\"{1:.4f}\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">"
      "<rect class=\"masked\" width=\"{1:.4f}\" height=\"{1:.4f}\"/><rect class=\"hatch\" "
      "width=\"{2:.4f}\" height=\"{1:.4f}\"/></pattern></defs>"
      "<path id=\"{0}-hidden\" d=\"{3}\"/><g id=\"{0}-axes\"><g class=\"labels\" "
      "font-size=\"{4:.1f}\">",
      id_, 5.0 / cell_, 1.3 / cell_, hidden_path(maps_.hidden), font_);
  // If cells are too small for a label each, only every `step`-th token has one.
  const auto step = static_cast<size_t>(std::ceil(9.0 / cell_));
  for (size_t t = 0; t < static_cast<size_t>(queries_); t += step) svg += query_label(t);
  for (size_t s = 0; s < static_cast<size_t>(keys_); s += step) svg += key_label(s);
  svg += fmt::format(
      "</g><g class=\"axis\" text-anchor=\"end\"><text x=\"{0:.1f}\" y=\"{1:.1f}\">{3} →</text>"
      "<text x=\"{0:.1f}\" y=\"{2:.1f}\">{4} ↓</text></g>",
      left_ - 9, top_ - 21, top_ - 7, axis_name(maps_.keys, "key"),
      axis_name(maps_.queries, "query"));
  if (cell_ >= 10.0) {
    svg += "<path class=\"lines\" d=\"";
    for (int64_t t = 1; t < queries_; ++t) {
      svg += fmt::format("M{:.1f} {:.1f}h{:.1f}", left_, top_ + cell_ * static_cast<double>(t),
                         width());
    }
    for (int64_t s = 1; s < keys_; ++s) {
      svg += fmt::format("M{:.1f} {:.1f}v{:.1f}", left_ + cell_ * static_cast<double>(s), top_,
                         height());
    }
    svg += fmt::format("\" stroke-width=\"{}\"/>", cell_ >= 15.0 ? 1.0 : 0.5);
  }
  svg += fmt::format(
      "<rect class=\"frame\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/></g>",
      left_, top_, width(), height());
  for (size_t i = 0; i < maps_.heads.size(); ++i) {
    svg += fmt::format(
        "<image id=\"{0}-i{1}\" width=\"{2}\" height=\"{3}\" preserveAspectRatio=\"none\" "
        "href=\"{4}\"/>",
        id_, i, keys_, queries_, heat_image_url(maps_.heads[i].weights, queries_, keys_));
  }
  if (!maps_.local_hidden.empty()) {
    svg += fmt::format("<path id=\"{}-local-hidden\" d=\"{}\"/>", id_,
                       hidden_path(maps_.local_hidden));
  }
  return svg + "</svg>\n";
}

std::string HeadMaps::numbers(const HeadAttention& head) const {
  std::string svg;
  for (int64_t t = 0; t < queries_; ++t) {
    for (int64_t s = 0; s < keys_; ++s) {
      const auto i = static_cast<size_t>(t * keys_ + s);
      if (maps_.hidden_of(head)[i] != 0) continue;
      std::string number = fmt::format("{:.2f}", head.weights[i]);
      if (number[0] == '0') number.erase(0, 1);
      svg += fmt::format("<text class=\"number\" x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\">{}</text>",
                         left_ + (static_cast<double>(s) + 0.5) * cell_,
                         top_ + (static_cast<double>(t) + 0.5) * cell_ + 4.0,
                         is_dark(color_index(head.weights[i])) ? "#fff" : "#33465c", number);
    }
  }
  return svg;
}

double HeadMaps::map_width() const { return left_ + width() + right_; }

std::string HeadMaps::map(size_t index) const {
  const HeadAttention& head = maps_.heads[index];
  std::string svg = fmt::format(
      "<svg class=\"map\" tabindex=\"0\" role=\"img\" aria-label=\"layer {0}, head {1}\" "
      "data-index=\"{2}\" data-left=\"{3:.1f}\" data-top=\"{4:.1f}\" data-cell=\"{5:.4f}\" "
      "width=\"{6:.0f}\" height=\"{7:.0f}\"><g transform=\"translate({3:.1f} {4:.1f}) "
      "scale({5:.4f})\"><use href=\"#{8}-i{2}\"/><use href=\"#{9}\" "
      "fill=\"url(#{8}-hatch)\"/></g><use href=\"#{8}-axes\"/>",
      head.layer, head.head, index, left_, top_, cell_, map_width(), top_ + height() + 6.0, id_,
      hidden_id(head));
  if (std::max(queries_, keys_) <= kMostWithNumbers) svg += numbers(head);
  return svg + "</svg>";
}

std::string HeadMaps::thumbnail(size_t index) const {
  return fmt::format(
      "<svg viewBox=\"0 0 {0} {1}\" aria-hidden=\"true\"><use href=\"#{2}-i{3}\"/>"
      "<use class=\"masked\" href=\"#{4}\"/></svg>",
      keys_, queries_, id_, index, hidden_id(maps_.heads[index]));
}

}  // namespace tessera
