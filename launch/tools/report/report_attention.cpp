#include "launch/tools/report/report_attention.h"

#include <algorithm>

#include "launch/support/text/html.h"
#include "launch/support/text/human_text.h"
#include "launch/support/text/printable_text.h"
#include "launch/tools/attention/head_map.h"

namespace tessera {
namespace {

/// "cross-attention: queries: target, keys: source", of an encoder–decoder.
std::string title_of(const SequenceAttention& sequence, const AttentionMaps& maps) {
  const bool is_cross = maps.queries != maps.keys;
  return fmt::format("{}{}, queries: {}, keys: {}", printable(maps.name),
                     is_cross ? "-attention" : "", sequence.queries_of(maps).name,
                     sequence.keys_of(maps).name);
}

void add_maps(std::string& html, const SequenceAttention& sequence, const AttentionMaps& attention,
              const std::string& id) {
  if (attention.hidden.empty() || attention.heads.empty()) return;
  if (!attention.name.empty()) {
    append_html(html, "<h4>{}</h4>", escape_html(title_of(sequence, attention)));
  }
  const HeadMaps maps(sequence, attention, id);
  html += maps.definitions() + "<div class=\"maps\">";
  for (size_t i = 0; i < attention.heads.size(); ++i) {
    append_html(html, "<figure><figcaption>layer {}, head {}</figcaption>{}</figure>\n",
                attention.heads[i].layer, attention.heads[i].head, maps.map(i));
  }
  html += "</div>\n";
}

}  // namespace

void add_attention(std::string& html, const std::vector<RunRecord>& runs,
                   const std::vector<std::string>& names) {
  const auto has = [](const RunRecord& run) { return run.attention.has_value(); };
  if (std::ranges::none_of(runs, has)) return;
  html +=
      "<section id=\"attention\"><h2>Attention</h2>\n<p class=\"faint\">What the first heads "
      "attend to in the start of a held-out text. Each row is a query, whose weights add "
      "up to 1 over its keys; darker is more; hatched is hidden by the mask.</p>\n";
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!has(runs[i])) continue;
    const RunAttention& found = *runs[i].attention;
    append_html(html, "<details class=\"attention\"{}><summary>{}step {}</summary>\n",
                runs.size() == 1 ? " open" : "",
                runs.size() == 1 ? "" : escape_html(printable(names[i])) + ": ",
                grouped(found.step));
    for (size_t s = 0; s < found.report.sequences.size(); ++s) {
      const SequenceAttention& sequence = found.report.sequences[s];
      for (size_t a = 0; a < sequence.attentions.size(); ++a) {
        add_maps(html, sequence, sequence.attentions[a],
                 fmt::format("attention-{}-{}-{}", i, s, a));
      }
    }
    html += "</details>\n";
  }
  html += "</section>\n";
}

}  // namespace tessera
