#include "launch/tools/attention/attention_page.h"

#include <algorithm>
#include <string_view>

#include "launch/support/text/html.h"
#include "launch/support/text/utf8.h"
#include "launch/tools/attention/head_map.h"
#include "launch/tools/attention/heat_colors.h"
#include "launch/tools/attention/heat_png.h"
#include "launch/tools/attention/token_label.h"
#include "launch/tools/pages/pages.h"

namespace tessera {
namespace {

constexpr size_t kLongestText = 60;  // of a token, in characters

void add_legend(std::string& html) {
  append_html(html, "<div class=\"legend\"><div class=\"scale\" data-colors=\"{}\">", heat_stops());
  html +=
      "<b>weight of a key for a query</b><div class=\"bar\" "
      "style=\"background:linear-gradient(90deg";
  for (int i = 0; i <= 15; ++i) {
    append_html(html, ",{}", hex(heat_color(static_cast<uint8_t>(17 * i))));
  }
  html += ")\"></div><div class=\"ticks\">";
  for (const char* tick : {"0", "0.01", "0.05", "0.15", "0.3", "0.5", "1"}) {
    append_html(html, "<span style=\"left:{:.1f}%\">{}</span>", color_index(std::stof(tick)) / 2.55,
                tick);
  }
  html +=
      "</div></div><div><b>hidden by the mask</b><span class=\"swatch\"></span></div>"
      "<div><b>each row is a query</b>its weights add up to 1 over the keys that it sees</div>"
      "<div class=\"colors\" hidden><label>colors <select><option value=\"all\">from 0 to 1 in all "
      "maps</option><option value=\"each\">up to the largest weight of each map</option></select>"
      "</label></div></div>\n";
}

/// Adds the legend of the pictures over an image, and the choice of the query.
void add_image_legend(std::string& html, const AttendedImage& image) {
  const char* query = image.has_class_token ? "the class token" : "all patches, their mean";
  append_html(
      html,
      "<p>Each head has the image, and over it the weights of its patches for {0}; the largest is "
      "the darkest. Below, tokens are named by the row and column of their patch.</p>\n"
      "<p class=\"queries\" hidden><button type=\"button\" aria-pressed=\"true\">for {0}</button>"
      "Click a patch, or move with the arrow keys, to see the weights for it. <output></output>"
      "</p>\n",
      query);
}

void add_header(std::string& html, const AttentionReport& report) {
  html += "<header><h1>What each head attends to</h1><dl>";
  for (const auto& [name, value] :
       {std::pair("model", &report.model), std::pair("checkpoint", &report.checkpoint),
        std::pair("mask", &report.mask)}) {
    if (value->empty()) continue;
    append_html(html, "<dt>{}</dt><dd>{}</dd>", name, escape_html(valid_utf8(*value)));
  }
  html += "</dl>";
  add_legend(html);
  html +=
      "<noscript><p>Without JavaScript the numbers do not appear under the pointer; they are "
      "in the page's source as JSON.</p></noscript></header>\n";
}

/// Adds the tokens of a text in order, and marks those that no query sees.
void add_text(std::string& html, const SequenceAttention& sequence, size_t index) {
  const AttentionText& text = sequence.texts[index];
  append_html(html, "<ol class=\"text\"{}>",
              text.name.empty() ? "" : fmt::format(" data-name=\"{}\"", escape_html(text.name)));
  for (size_t t = 0; t < text.tokens.size(); ++t) {
    const std::string label = escape_html(token_label(text.tokens[t], kLongestText));
    append_html(html, "<li{} data-label=\"{}\" title=\"id {}\"><small>{}</small>{}</li>",
                is_seen(sequence, index, t) ? "" : " class=\"unseen\"", label, text.ids[t], t,
                label);
  }
  html += "</ol>\n";
}

/// The heads of one layer: `heads[begin, end)` of an attention.
struct Layer {
  int64_t layer;
  size_t begin, end;
};

std::vector<Layer> layers_of(const AttentionMaps& attention) {
  std::vector<Layer> layers;
  for (size_t i = 0; i < attention.heads.size(); ++i) {
    const int64_t layer = attention.heads[i].layer;
    if (layers.empty() || layers.back().layer != layer) layers.push_back({layer, i, i});
    layers.back().end = i + 1;
  }
  return layers;
}

/// Chooses the layer with radio buttons and CSS, so that it needs no script.
void add_layer_choice(std::string& html, const std::string& id, const std::vector<Layer>& layers) {
  html += "<style>";
  for (const Layer& layer : layers) {
    append_html(html,
                "#{0}-l{1}:checked~.layers>.l{1}{{display:flex}}"
                "#{0}-l{1}:checked~.overview .l{1}{{background:var(--grid);font-weight:600}}"
                "#{0}-l{1}:focus-visible~.overview .l{1}{{outline:2px solid var(--mark)}}",
                id, layer.layer);
  }
  html += "</style>\n";
  for (const Layer& layer : layers) {
    append_html(html,
                "<input type=\"radio\" name=\"{0}\" id=\"{0}-l{1}\" aria-label=\"layer {1}\"{2}>",
                id, layer.layer, layer.begin == 0 ? " checked" : "");
  }
}

void add_overview(std::string& html, const HeadMaps& maps, const std::string& id,
                  const AttentionMaps& attention, const std::vector<Layer>& layers) {
  html += "\n<div class=\"overview\"><p>All heads; choose a layer</p>";
  for (const Layer& layer : layers) {
    append_html(html,
                "<label class=\"l{1}\" for=\"{0}-l{1}\"><span class=\"name\">layer {1}</span>", id,
                layer.layer);
    for (size_t i = layer.begin; i < layer.end; ++i) {
      append_html(html, "<span title=\"head {}\">{}</span>", attention.heads[i].head,
                  maps.thumbnail(i));
    }
    html += "</label>";
  }
  html += "</div>\n";
}

/// Describes a named attention in words.
void add_attention_name(std::string& html, const SequenceAttention& sequence,
                        const AttentionMaps& attention) {
  if (attention.name.empty()) return;
  const bool is_self = attention.queries == attention.keys;
  append_html(html, "<h3>{} <small>queries: {}, down; keys: {}, across</small></h3>\n",
              is_self ? fmt::format("Self-attention of the {}", escape_html(attention.name))
                      : "Cross-attention",
              escape_html(sequence.queries_of(attention).name),
              escape_html(sequence.keys_of(attention).name));
}

/// The picture that all heads of a sequence are drawn over.
void add_image_definition(std::string& html, const AttendedImage& image, const std::string& id) {
  append_html(html,
              "<svg class=\"defs\" aria-hidden=\"true\"><defs><image id=\"{}-image\" width=\"1\" "
              "height=\"1\" href=\"{}\"/></defs></svg>\n",
              id, color_image_url(image.colors, image.size, image.size));
}

/// The image, and beside it the same under what a head attends to. The largest weight has the
/// darkest color.
void add_over_image(std::string& html, const AttendedImage& image, size_t index,
                    const HeadAttention& head, const std::string& id) {
  const int64_t pixels = std::clamp<int64_t>(16 * image.patches, 224, 448);
  std::vector<float> weights = patch_weights(image, head);
  const float largest = *std::max_element(weights.begin(), weights.end());
  for (float& weight : weights) weight = largest > 0.0f ? weight / largest : 0.0f;
  append_html(
      html,
      "<svg class=\"over-image\" tabindex=\"0\" role=\"img\" aria-label=\"layer {0}, head {1}, "
      "over the image\" data-index=\"{2}\" viewBox=\"0 0 2.08 1\" width=\"{3}\" height=\"{4}\">"
      "<use href=\"#{5}-image\"/><use href=\"#{5}-image\" x=\"1.08\"/><image class=\"weights\" "
      "x=\"1.08\" width=\"1\" height=\"1\" href=\"{6}\"/></svg>",
      head.layer, head.head, index, pixels * 208 / 100, pixels, id,
      heat_image_url(weights, image.patches, image.patches));
}

void add_attention(std::string& html, const SequenceAttention& sequence, size_t index,
                   const std::string& id) {
  const AttentionMaps& attention = sequence.attentions[index];
  add_attention_name(html, sequence, attention);
  if (attention.hidden.empty() || attention.heads.empty()) {
    html += "<p>There is nothing to attend to.</p>";
    return;
  }
  const HeadMaps maps(sequence, attention, id);
  const auto layers = layers_of(attention);
  html += maps.definitions();
  const AttendedImage& image = sequence.image;
  if (image.size > 0) add_image_definition(html, image, id);
  append_html(html,
              "<div class=\"heads\" data-attention=\"{}\" data-queries=\"{}\" data-keys=\"{}\">\n",
              index, attention.queries, attention.keys);
  add_layer_choice(html, id, layers);
  add_overview(html, maps, id, attention, layers);
  // Next to the overview if a map fits there, otherwise below it; 26 is for the map's frame.
  append_html(html, "<div class=\"layers\" style=\"flex-basis:{:.0f}px\">",
              maps.map_width() + 26.0);
  for (const Layer& layer : layers) {
    append_html(html, "<div class=\"layer l{}\">\n", layer.layer);
    for (size_t i = layer.begin; i < layer.end; ++i) {
      append_html(html, "<figure><figcaption>layer {}, head {}<output></output></figcaption>",
                  layer.layer, attention.heads[i].head);
      if (image.size > 0) add_over_image(html, image, i, attention.heads[i], id);
      html += maps.map(i) + "</figure>\n";
    }
    html += "</div>\n";
  }
  html += "</div></div>";
}

void add_sequence(std::string& html, const SequenceAttention& sequence, size_t index,
                  bool with_heading) {
  append_html(html, "<section class=\"sequence\" data-sequence=\"{}\"", index);
  if (sequence.image.size > 0) {
    append_html(html, " data-patches=\"{}\" data-first=\"{}\"", sequence.image.patches,
                sequence.image.has_class_token ? 1 : 0);
  }
  html += ">\n";
  if (with_heading) append_html(html, "<h2>Sequence {}</h2>\n", index);
  if (sequence.image.size > 0) {
    add_image_legend(html, sequence.image);
  } else {
    for (size_t text = 0; text < sequence.texts.size(); ++text) add_text(html, sequence, text);
  }
  if (sequence.attentions.empty()) html += "<p>There is nothing to attend to.</p>";
  for (size_t i = 0; i < sequence.attentions.size(); ++i) {
    const std::string& name = sequence.attentions[i].name;
    add_attention(html, sequence, i, fmt::format("s{}{}", index, name.empty() ? "" : "-" + name));
  }
  html += "</section>\n";
}

}  // namespace

std::string to_html(const AttentionReport& report) {
  const Json json = to_json(report);
  PageUses uses;
  uses.script = uses.data_images = true;
  std::string html =
      page_start("Attention weights", fmt::format("{}{}", kPageCss, kAttentionCss), uses);
  add_header(html, report);
  html += "<main>\n";
  for (size_t i = 0; i < report.sequences.size(); ++i) {
    add_sequence(html, report.sequences[i], i, report.sequences.size() > 1);
  }
  html += "</main>\n<div id=\"tip\" role=\"status\" hidden></div>\n";
  html += "<script type=\"application/json\" id=\"attention\">" + json_for_script(json);
  append_html(html, "</script>\n<script>{}</script>\n</body></html>\n", kAttentionJs);
  return html;
}

}  // namespace tessera
