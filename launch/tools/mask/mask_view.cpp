#include "launch/tools/mask/mask_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/checked.h"
#include "core/error.h"
#include "models/architecture.h"
#include "models/attention_plane.h"

namespace tessera {
namespace {

std::string describe(const ModelTraits& traits, bool is_local) {
  std::string text = traits.causal ? "causal" : "";
  if (traits.attention_prefix > 0) {
    text += fmt::format(", prefix of {} tokens", traits.attention_prefix);
  }
  if (is_local) {
    text += fmt::format("{}window of {} tokens", text.empty() ? "" : ", ", traits.attention_window);
    if (!traits.causal) text += " on each side, with the token itself";
    if (traits.attention_dilation > 1) {
      text += fmt::format(", {} apart", traits.attention_dilation);
    }
    if (traits.global_tokens > 0) text += fmt::format(", {} global", traits.global_tokens);
  }
  if (traits.attention_plane) {
    text += fmt::format("{}{} of model.attention_mask_file", text.empty() ? "" : ", ",
                        traits.attention_plane->is_additive() ? "what is added" : "the mask");
  }
  return text.empty() ? "nothing but other documents is hidden" : text;
}

MaskView::Layers count_visible(const MaskView& view, const ModelTraits& traits, bool is_local,
                               int64_t head) {
  MaskView::Layers kind;
  kind.mask = describe(traits, is_local);
  kind.counts.assign(static_cast<size_t>(view.cells * view.cells), 0);
  const int64_t tiles = view.tiles_of_row();
  std::vector<bool>& seen = kind.seen_tiles;
  seen.assign(static_cast<size_t>(tiles * tiles), false);
  int64_t begin = 0;
  for (const int64_t length : view.separate ? view.documents : std::vector{view.length}) {
    for (int64_t t = 0; t < length; ++t) {
      for (int64_t s = 0; s < length; ++s) {
        if (traits.hides(t, s, is_local, head)) continue;
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

double percent(int64_t part, int64_t whole) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

/// The heads whose planes hide the same, in groups.
std::vector<std::vector<int64_t>> groups_of_heads(const ModelTraits& traits) {
  std::vector<std::vector<int64_t>> groups;
  const int64_t heads = traits.attention_plane ? traits.attention_plane->heads() : 1;
  for (int64_t h = 0; h < heads; ++h) {
    const auto same = std::ranges::find_if(groups, [&](const std::vector<int64_t>& group) {
      return traits.attention_plane->hides_the_same(group.front(), h);
    });
    if (same == groups.end()) {
      groups.push_back({h});
    } else {
      same->push_back(h);
    }
  }
  return groups;
}

/// The layers of a stack, whose mask is that of `traits`.
void add_stack(MaskView& view, const ModelConfig& config, const ModelTraits& traits,
               const std::string& stack, int64_t num_layers) {
  for (const bool is_local : {false, true}) {
    std::vector<int64_t> layers;
    for (int64_t layer = 0; layer < num_layers; ++layer) {
      if (config.is_local(layer) == is_local) layers.push_back(layer);
    }
    if (layers.empty()) continue;
    const std::vector<std::vector<int64_t>> groups = groups_of_heads(traits);
    for (const std::vector<int64_t>& heads : groups) {
      MaskView::Layers& kind =
          view.kinds.emplace_back(count_visible(view, traits, is_local, heads.front()));
      kind.stack = stack;
      kind.layers = layers;
      kind.num_layers = num_layers;
      if (groups.size() > 1) kind.heads = heads;
    }
  }
}

}  // namespace

int64_t longest_row(const ModelConfig& config) {
  const int64_t source = traits_of(config).source_length;
  return source == 0 ? config.seq_length : std::min(config.seq_length, source);
}

MaskView view_mask(const ModelConfig& config, const std::vector<int64_t>& documents,
                   bool separate) {
  MaskView view;
  view.documents = documents;
  view.separate = separate;
  for (const int64_t length : documents) {
    require(length >= 1, "a document has {} tokens, but must have at least 1", length);
    view.length += length;
  }
  const int64_t longest = longest_row(config);
  require(view.length >= 1 && view.length <= longest,
          "the documents have {} tokens together, but {} is {}: give 1 to {}", view.length,
          longest == config.seq_length ? "model.seq_length" : "model.source_length", longest,
          longest);
  view.cell = ceil_div(view.length, MaskView::kMostCells);
  view.cells = ceil_div(view.length, view.cell);
  const ModelTraits traits = traits_of(config);
  if (traits.source_length == 0) {
    add_stack(view, config, traits, "", config.num_layers);
    return view;
  }
  ModelTraits encoder = traits;
  encoder.causal = false;
  add_stack(view, config, encoder, "encoder", config.num_layers);
  add_stack(view, config, traits, "decoder", config.resolved_decoder_layers());
  return view;
}

std::string describe_row(const MaskView& view) {
  const bool together = !view.separate && view.documents.size() > 1;
  return fmt::format("{} tokens in {} document{} of {}{}", view.length, view.documents.size(),
                     view.documents.size() == 1 ? "" : "s", fmt::join(view.documents, ", "),
                     together ? ", which attend to each other, because data.packing is concatenate "
                                "and data.separate_documents is false"
                              : "");
}

namespace {

std::string name_all_layers(const MaskView::Layers& kind) {
  const std::string of = kind.stack.empty() ? "" : kind.stack + ", ";
  const std::vector<int64_t>& layers = kind.layers;
  if (std::ssize(layers) == kind.num_layers) {
    return kind.num_layers == 1 ? of + "the only layer"
                                : fmt::format("{}all {} layers", of, kind.num_layers);
  }
  constexpr size_t kMostNamed = 8;
  const std::vector<int64_t> named(
      layers.begin(), layers.begin() + static_cast<int64_t>(std::min(layers.size(), kMostNamed)));
  return fmt::format("{}layers {}{} ({} of {})", of, fmt::join(named, ", "),
                     layers.size() > kMostNamed ? ", ..." : "", layers.size(), kind.num_layers);
}

}  // namespace

std::string name_layers(const MaskView::Layers& kind) {
  if (kind.heads.empty()) return name_all_layers(kind);
  return fmt::format("{}, head{} {}", name_all_layers(kind), kind.heads.size() == 1 ? "" : "s",
                     fmt::join(kind.heads, ", "));
}

std::string describe_counts(const MaskView& view, const MaskView::Layers& kind) {
  const int64_t pairs = view.length * view.length;
  std::string text = fmt::format("{} of {} pairs are visible ({:.1f} %)", kind.visible, pairs,
                                 percent(kind.visible, pairs));
  if (kind.tiles > 1) {
    text += fmt::format("; {} of {} tiles of {} × {} are skipped", kind.skipped, kind.tiles,
                        MaskView::kTile, MaskView::kTile);
  }
  return text;
}

int64_t pairs_of(const MaskView& view, int64_t i, int64_t j) {
  const auto size = [&](int64_t k) {
    return std::min(view.length, (k + 1) * view.cell) - k * view.cell;
  };
  return size(i) * size(j);
}

std::string to_string(const MaskView& view) {
  std::string text = describe_row(view) + "\n";
  text += view.cell == 1 ? "a line is a query, a column a key: █ visible, · hidden\n"
                         : fmt::format(
                               "a line is {0} queries, a column {0} keys: █ visible, ▒ "
                               "partly, · hidden\n",
                               view.cell);
  for (const MaskView::Layers& kind : view.kinds) {
    text += fmt::format("\n{}: {}\n", name_layers(kind), kind.mask);
    for (int64_t i = 0; i < view.cells; ++i) {
      text += "  ";
      for (int64_t j = 0; j < view.cells; ++j) {
        const int64_t count = kind.counts[static_cast<size_t>(i * view.cells + j)];
        text += count == 0 ? "·" : count == pairs_of(view, i, j) ? "█" : "▒";
      }
      text += '\n';
    }
    text += fmt::format("  {}\n", describe_counts(view, kind));
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
    kinds.push_back({{"stack", kind.stack},
                     {"layers", kind.layers},
                     {"heads", kind.heads},
                     {"mask", kind.mask},
                     {"visible", kind.visible},
                     {"pairs", view.length * view.length},
                     {"tiles", kind.tiles},
                     {"skipped", kind.skipped},
                     {"cell", view.cell},
                     {"counts", std::move(counts)}});
  }
  return {{"length", view.length},
          {"documents", view.documents},
          {"separate", view.separate},
          {"layers", std::move(kinds)}};
}

}  // namespace tessera
