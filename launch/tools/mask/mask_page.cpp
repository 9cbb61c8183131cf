#include "launch/tools/mask/mask_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "launch/support/text/html.h"
#include "launch/support/text/utf8.h"
#include "launch/tools/pages/pages.h"

namespace tessera {
namespace {

/// Calls body(row, begin, end, value) for each range of equal values of each row.
template <typename Values, typename Body>
void for_each_run(const Values& values, int64_t columns, const Body& body) {
  for (int64_t first = 0; first < std::ssize(values); first += columns) {
    for (int64_t begin = 0, end = 0; begin < columns; begin = end) {
      const auto value = values[static_cast<size_t>(first + begin)];
      while (end < columns && values[static_cast<size_t>(first + end)] == value) ++end;
      body(first / columns, begin, end, value);
    }
  }
}

/// A picture in which a token is a unit.
void add_picture(std::string& html, const MaskView& view, const MaskView::Layers& kind) {
  const int64_t length = view.length;
  const auto rect = [&](std::string_view name, int64_t size, int64_t row, int64_t begin,
                        int64_t end, std::string_view more) {
    const int64_t top = row * size, bottom = std::min(length, top + size);
    append_html(html, "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}/>", name,
                begin * size, top, std::min(length, end * size) - begin * size, bottom - top, more);
  };
  append_html(
      html,
      "<svg viewBox=\"0 0 {0} {0}\" role=\"img\" aria-label=\"queries down, keys across\" "
      "shape-rendering=\"crispEdges\"><rect class=\"back\" width=\"{0}\" height=\"{0}\"/>\n",
      length);
  // Shares of a cell in twentieths, so that neighbors can be one rectangle.
  constexpr int64_t kShares = 20;
  std::vector<int64_t> shares;
  for (int64_t i = 0; i < view.cells * view.cells; ++i) {
    const int64_t pairs = pairs_of(view, i / view.cells, i % view.cells);
    const int64_t count = kind.counts[static_cast<size_t>(i)];
    shares.push_back((count * kShares + pairs - 1) / pairs);
  }
  for_each_run(shares, view.cells, [&](int64_t row, int64_t begin, int64_t end, int64_t share) {
    if (share == 0) return;
    rect("seen", view.cell, row, begin, end,
         share == kShares
             ? ""
             : fmt::format(" opacity=\"{:.2f}\"", 0.2 + 0.035 * static_cast<double>(share)));
  });
  const int64_t tiles = view.tiles_of_row();
  for_each_run(kind.seen_tiles, tiles, [&](int64_t row, int64_t begin, int64_t end, bool seen) {
    if (!seen) rect("skipped", MaskView::kTile, row, begin, end, "");
  });
  const auto add_lines = [&](std::string_view name, const std::vector<int64_t>& places) {
    if (places.empty()) return;
    append_html(html, "<path class=\"{}\" d=\"", name);
    for (const int64_t at : places) append_html(html, "M0 {0}H{1}M{0} 0V{1}", at, length);
    html += "\"/>";
  };
  std::vector<int64_t> lines, ends;
  constexpr int64_t kMostTiles = 64;  // otherwise the lines would cover the picture
  for (int64_t i = 1; i < tiles && tiles <= kMostTiles; ++i) lines.push_back(i * MaskView::kTile);
  int64_t end = 0;
  for (const int64_t document : view.documents) {
    if (end > 0) ends.push_back(end);
    end += document;
  }
  add_lines("tiles", lines);
  add_lines("ends", ends);
  html += "</svg>\n";
}

void add_legend(std::string& html, const MaskView& view) {
  const auto item = [&](std::string_view shape, std::string_view text) {
    append_html(html, "<li><svg viewBox=\"0 0 18 18\" aria-hidden=\"true\">{}</svg>{}</li>", shape,
                text);
  };
  constexpr std::string_view kBack = "<rect class=\"back\" width=\"18\" height=\"18\"/>";
  html += "<ul>";
  item("<rect class=\"seen\" width=\"18\" height=\"18\"/>", "visible");
  if (view.cell > 1) {
    item(
        "<rect class=\"back\" width=\"18\" height=\"18\"/><rect class=\"seen\" width=\"18\" "
        "height=\"18\" opacity=\"0.5\"/>",
        fmt::format("some of {0} × {0} pairs are visible", view.cell));
  }
  item(kBack, "hidden");
  const auto skips = [](const MaskView::Layers& kind) { return kind.skipped > 0; };
  if (std::ranges::any_of(view.kinds, skips)) {
    item(fmt::format("{}<rect fill=\"url(#legend)\" width=\"18\" height=\"18\"/>", kBack),
         fmt::format("hidden tile of {0} × {0} pairs, which kernels skip", MaskView::kTile));
  }
  if (view.documents.size() > 1) {
    item("<path class=\"ends\" d=\"M0 9H18M9 0V18\"/>", "a document ends");
  }
  html += "</ul>\n";
}

/// Diagonal lines, `size` apart.
void add_hatch(std::string& html, std::string_view id, double size) {
  append_html(
      html,
      "<pattern id=\"{0}\" width=\"{1:.3f}\" height=\"{1:.3f}\" patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"rotate(45)\"><rect width=\"{2:.3f}\" height=\"{1:.3f}\" "
      "style=\"fill:var(--hatch)\"/></pattern>",
      id, size, size / 4.0);
}

}  // namespace

std::string to_html(const MaskView& view, std::string_view title) {
  const std::string heading = fmt::format("Attention masks of {}", valid_utf8(title));
  std::string html = page_start(heading, fmt::format("{}{}", kPageCss, kMaskCss));
  append_html(html, "<h1>{}</h1>\n<p>{}. Queries down, keys across.</p>\n", escape_html(heading),
              escape_html(describe_row(view)));
  html += "<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\"><defs>";
  add_hatch(html, "skipped", static_cast<double>(view.length) / 70.0);
  add_hatch(html, "legend", 6.0);
  html += "</defs></svg>\n";
  add_legend(html, view);
  html += "<main>\n";
  for (const MaskView::Layers& kind : view.kinds) {
    append_html(html, "<figure><figcaption><b>{}: {}</b><span>{}</span></figcaption>\n",
                escape_html(name_layers(kind)), escape_html(kind.mask),
                escape_html(describe_counts(view, kind)));
    add_picture(html, view, kind);
    html += "</figure>\n";
  }
  html += "</main>\n</body></html>\n";
  return html;
}

}  // namespace tessera
