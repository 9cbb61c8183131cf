#include "launch/tools/mask/mask_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/checked.h"
#include "core/error.h"
#include "models/architecture.h"

namespace tessera {
namespace {

std::string describe(const ModelTraits& traits, bool is_local) {
  std::string text = traits.causal ? "causal" : "";
  if (is_local) {
    text += fmt::format("{}window of {} tokens", text.empty() ? "" : ", ", traits.attention_window);
    if (!traits.causal) text += " on each side, with the token itself";
  }
  return text.empty() ? "nothing but other documents is hidden" : text;
}

MaskView::Layers count_visible(const MaskView& view, const ModelTraits& traits, bool is_local) {
  MaskView::Layers kind;
  kind.mask = describe(traits, is_local);
  kind.counts.assign(static_cast<size_t>(view.cells * view.cells), 0);
  const int64_t tiles = ceil_div(view.length, MaskView::kTile);
  std::vector<bool> seen(static_cast<size_t>(tiles * tiles), false);
  int64_t begin = 0;
  for (const int64_t length : view.documents) {
    for (int64_t t = 0; t < length; ++t) {
      for (int64_t s = 0; s < length; ++s) {
        if (traits.hides(t, s, is_local)) continue;
        const int64_t query = begin + t, key = begin + s;
        ++kind.visible;
        ++kind.counts[static_cast<size_t>(query / view.cell * view.cells + key / view.cell)];
        seen[static_cast<size_t>(query / MaskView::kTile * tiles + key / MaskView::kTile)] = true;
      }
    }
    begin += length;
  }
  kind.tiles = tiles * tiles;
  kind.skipped = std::ranges::count(seen, false);
  return kind;
}

/// "0, 3, 6, ... (8 of 22)"
std::string name_layers(const std::vector<int64_t>& layers, int64_t all) {
  if (std::ssize(layers) == all) return fmt::format("all {} layers", all);
  constexpr size_t kMostNamed = 8;
  const std::vector<int64_t> named(
      layers.begin(), layers.begin() + static_cast<int64_t>(std::min(layers.size(), kMostNamed)));
  return fmt::format("layers {}{} ({} of {})", fmt::join(named, ", "),
                     layers.size() > kMostNamed ? ", ..." : "", layers.size(), all);
}

/// The number of pairs in the cell of row `i` and column `j`; those at the end may be smaller.
int64_t pairs_of(const MaskView& view, int64_t i, int64_t j) {
  const auto size = [&](int64_t k) {
    return std::min(view.length, (k + 1) * view.cell) - k * view.cell;
  };
  return size(i) * size(j);
}

double percent(int64_t part, int64_t whole) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

MaskView view_mask(const ModelConfig& config, const std::vector<int64_t>& documents) {
  MaskView view;
  view.documents = documents;
  for (const int64_t length : documents) {
    require(length >= 1, "a document has {} tokens, but must have at least 1", length);
    view.length += length;
  }
  require(view.length >= 1 && view.length <= config.seq_length,
          "the documents have {} tokens together, but model.seq_length is {}: give 1 to {}",
          view.length, config.seq_length, config.seq_length);
  view.cell = ceil_div(view.length, MaskView::kMostCells);
  view.cells = ceil_div(view.length, view.cell);
  const ModelTraits traits = traits_of(config);
  for (const bool is_local : {false, true}) {
    std::vector<int64_t> layers;
    for (int64_t layer = 0; layer < config.num_layers; ++layer) {
      if (config.is_local(layer) == is_local) layers.push_back(layer);
    }
    if (layers.empty()) continue;
    view.kinds.push_back(count_visible(view, traits, is_local));
    view.kinds.back().layers = std::move(layers);
  }
  return view;
}

std::string to_string(const MaskView& view) {
  int64_t all = 0;
  for (const MaskView::Layers& kind : view.kinds) all += std::ssize(kind.layers);
  std::string text =
      fmt::format("{} tokens in {} document{} of {}\n", view.length, view.documents.size(),
                  view.documents.size() == 1 ? "" : "s", fmt::join(view.documents, ", "));
  text += view.cell == 1 ? "a line is a query, a column a key: █ visible, · hidden\n"
                         : fmt::format(
                               "a line is {0} queries, a column {0} keys: █ visible, ▒ "
                               "partly, · hidden\n",
                               view.cell);
  for (const MaskView::Layers& kind : view.kinds) {
    text += fmt::format("\n{}: {}\n", name_layers(kind.layers, all), kind.mask);
    for (int64_t i = 0; i < view.cells; ++i) {
      text += "  ";
      for (int64_t j = 0; j < view.cells; ++j) {
        const int64_t count = kind.counts[static_cast<size_t>(i * view.cells + j)];
        text += count == 0 ? "·" : count == pairs_of(view, i, j) ? "█" : "▒";
      }
      text += '\n';
    }
    text +=
        fmt::format("  {} of {} pairs are visible ({:.1f} %)", kind.visible,
                    view.length * view.length, percent(kind.visible, view.length * view.length));
    if (kind.tiles > 1) {
      text += fmt::format("; {} of {} tiles of {} × {} are skipped", kind.skipped, kind.tiles,
                          MaskView::kTile, MaskView::kTile);
    }
    text += '\n';
  }
  return text;
}

Json to_json(const MaskView& view) {
  Json kinds = Json::array();
  for (const MaskView::Layers& kind : view.kinds) {
    Json counts = Json::array();
    for (int64_t i = 0; i < view.cells; ++i) {
      const auto row = kind.counts.begin() + i * view.cells;
      counts.push_back(std::vector<int64_t>(row, row + view.cells));
    }
    kinds.push_back({{"layers", kind.layers},
                     {"mask", kind.mask},
                     {"visible", kind.visible},
                     {"pairs", view.length * view.length},
                     {"tiles", kind.tiles},
                     {"skipped", kind.skipped},
                     {"cell", view.cell},
                     {"counts", std::move(counts)}});
  }
  return {{"length", view.length}, {"documents", view.documents}, {"layers", std::move(kinds)}};
}

}  // namespace tessera
