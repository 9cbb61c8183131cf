#include "launch/tools/report/report_page.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "core/error.h"
#include "launch/support/text/html.h"
#include "launch/support/text/human_text.h"
#include "launch/support/text/printable_text.h"
#include "launch/tools/pages/pages.h"
#include "launch/tools/report/report_attention.h"
#include "launch/tools/report/report_panels.h"
#include "launch/tools/report/run_results.h"

namespace tessera {
namespace {

constexpr size_t kMostOpenEvents = 12;  // longer tables are folded
constexpr size_t kColors = 8;           // as in the style sheet
constexpr std::string_view kNone = "–";

/// Text of a run for an element.
std::string safe(std::string_view text) { return escape_html(printable(text)); }

std::string number(double value) { return measured(value); }

std::string at_step(const RunPoint& point) { return fmt::format("step {}", grouped(point.step)); }

/// `value` with seven digits, which charts do not need to be more exact.
double rounded(double value) {
  if (value == 0.0) return 0.0;
  const double scale = std::pow(10.0, 6.0 - std::floor(std::log10(std::abs(value))));
  const double result = std::round(value * scale) / scale;
  return std::isfinite(result) ? result : value;
}

Json to_json(const RunSeries& series) {
  Json x = Json::array(), y = Json::array();
  for (const RunPoint& point : thinned(series, kMostPoints)) {
    x.push_back(point.step);
    y.push_back(std::isnan(point.value) ? Json() : Json(rounded(point.value)));
  }
  return {{"x", std::move(x)}, {"y", std::move(y)}};
}

std::string_view name_of(RunEvent::Kind kind) {
  switch (kind) {
    case RunEvent::Kind::restart:
      return "restart";
    case RunEvent::Kind::rollback:
      return "rollback";
    case RunEvent::Kind::skipped:
      return "skipped";
    case RunEvent::Kind::warning:
      return "warning";
    case RunEvent::Kind::failure:
      return "failure";
  }
  return "";
}

/// Text of several lines. Tabs stay, and what else is unprintable is escaped.
std::string printable_lines(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("\n\t"), text.size());
    shown += printable(text.substr(0, end));
    text.remove_prefix(end);
    if (text.empty()) break;
    shown += text.front();
    text.remove_prefix(1);
  }
  return shown;
}

Json to_json(const std::vector<RunSamples>& samples) {
  Json list = Json::array();
  for (const RunSamples& of_step : samples) {
    Json texts = Json::array();
    for (const auto& [prompt, text] : of_step.texts) {
      texts.push_back({printable_lines(prompt), printable_lines(text)});
    }
    list.push_back({{"step", of_step.step}, {"texts", std::move(texts)}});
  }
  return list;
}

Json to_json(const RunRecord& run, const std::string& name,
             const std::vector<ReportPanel>& panels) {
  Json series = Json::object(), events = Json::array();
  for (const ReportPanel& panel : panels) {
    for (const ReportPanel::Series& each : panel.series) {
      if (const RunSeries* found = run.find(each.key)) series[each.key] = to_json(*found);
    }
  }
  if (const RunSeries* tokens = run.find("tokens")) {
    RunSeries known = *tokens;
    std::erase_if(known, [](const RunPoint& point) { return std::isnan(point.value); });
    if (!known.empty()) series["tokens"] = to_json(known);
  }
  for (const RunEvent& event : run.events) {
    events.push_back(
        {{"kind", name_of(event.kind)}, {"step", event.step}, {"text", printable(event.text)}});
  }
  return {{"name", printable(name)},
          {"series", std::move(series)},
          {"events", std::move(events)},
          {"samples", to_json(run.samples)}};
}

/// "gpt2: 12 layers, 768 wide, 12 heads; batches of 480, bf16" from the keys that are there.
std::string describe(const RunRecord& run) {
  std::string text;
  const auto add = [&](const char* key, std::string_view before, std::string_view after) {
    const std::optional<std::string> value = run.config_value(key);
    if (!value) return;
    text += fmt::format("{}{}{}{}", text.empty() ? "" : " · ", before, *value, after);
  };
  add("model.kind", "", "");
  add("model.num_layers", "", " layers");
  add("model.hidden_size", "", " wide");
  add("model.num_heads", "", " heads");
  add("batch.global", "", " sequences per step");
  add("run.precision", "", "");
  add("parallel.tensor", "tensor ", "");
  return text;
}

void add_tile(std::string& html, std::string_view name, const std::string& value,
              const std::string& more = "") {
  append_html(html, "<div><dt>{}</dt><dd>{}{}</dd></div>", name, value,
              more.empty() ? "" : " <small>" + more + "</small>");
}

/// The results of one run.
void add_tiles(std::string& html, const RunRecord& run) {
  const RunResults results = results_of(run);
  html += "<dl class=\"tiles\">";
  const std::optional<int64_t> total = run.total_steps();
  append_html(html, "<div><dt>step</dt><dd>{}{}</dd>", grouped(run.last_step),
              total ? fmt::format(" <small>of {}</small>", grouped(*total)) : "");
  if (total) {
    const double share = static_cast<double>(run.last_step) / static_cast<double>(*total);
    append_html(html, "<div class=\"bar\"><span style=\"width:{:.1f}%\"></span></div>",
                100.0 * std::min(1.0, share));
  }
  html += "</div>";
  if (results.loss) add_tile(html, "last loss", number(results.loss->value));
  if (results.eval_loss) {
    add_tile(html, "lowest evaluation loss", number(results.eval_loss->value),
             at_step(*results.eval_loss));
  }
  if (results.accuracy) {
    add_tile(html, "highest accuracy", percent(results.accuracy->value),
             at_step(*results.accuracy));
  }
  if (results.tokens_per_second) {
    add_tile(html, "tokens/s", human_amount(*results.tokens_per_second), "median");
  }
  if (results.mfu) add_tile(html, "MFU", percent(*results.mfu), "median");
  if (run.skipped_steps > 0) add_tile(html, "skipped steps", grouped(run.skipped_steps));
  if (run.rollbacks > 0) add_tile(html, "rollbacks", grouped(run.rollbacks));
  html += "</dl>\n";
}

/// A table whose wide rows scroll within their own frame. Cells are HTML.
class Table {
 public:
  explicit Table(std::string& html) : html_(html) {
    html_ += "<div class=\"scroll\"><table><thead><tr>";
  }
  void column(std::string_view name, bool is_number = false) {
    append_html(html_, "<th scope=\"col\"{}>{}</th>", is_number ? " class=\"n\"" : "", name);
  }
  void row() {
    html_ += is_first_ ? "</tr></thead>\n<tbody><tr>" : "</tr>\n<tr>";
    is_first_ = false;
  }
  void name(const std::string& text, size_t run) {
    append_html(html_, "<th scope=\"row\" class=\"run\" style=\"--c:var(--c{})\">{}</th>",
                run % kColors, text);
  }
  void cell(std::string_view text, std::string_view of_class = "") {
    append_html(html_, "<td{}>{}</td>",
                of_class.empty() ? "" : fmt::format(" class=\"{}\"", of_class), text);
  }
  void end() {
    html_ += is_first_ ? "</tr></thead></table></div>\n" : "</tr></tbody></table></div>\n";
  }

 private:
  std::string& html_;
  bool is_first_ = true;
};

/// The results of several runs. The best of a column is bold.
void add_results(std::string& html, const std::vector<RunRecord>& runs,
                 const std::vector<std::string>& names) {
  std::vector<RunResults> results;
  for (const RunRecord& run : runs) results.push_back(results_of(run));
  const auto any = [&](const auto& has) { return std::ranges::any_of(results, has); };
  const bool has_accuracy = any([](const RunResults& run) { return run.accuracy.has_value(); });
  const bool has_mfu = any([](const RunResults& run) { return run.mfu.has_value(); });
  const bool has_bad = std::ranges::any_of(
      runs, [](const RunRecord& run) { return run.skipped_steps + run.rollbacks > 0; });
  std::optional<double> lowest, highest;
  for (const RunResults& run : results) {
    if (run.eval_loss) lowest = std::min(lowest.value_or(INFINITY), run.eval_loss->value);
    if (run.accuracy) highest = std::max(highest.value_or(-INFINITY), run.accuracy->value);
  }
  Table table(html);
  table.column("run");
  table.column("step", true);
  table.column("lowest evaluation loss", true);
  if (has_accuracy) table.column("highest accuracy", true);
  table.column("last loss", true);
  table.column("median tokens/s", true);
  if (has_mfu) table.column("median MFU", true);
  if (has_bad) table.column("skipped steps", true);
  if (has_bad) table.column("rollbacks", true);
  const auto point = [&](const std::optional<RunPoint>& found, const auto& text,
                         const std::optional<double>& best) {
    if (!found) return table.cell(kNone, "n");
    table.cell(fmt::format("{} <small>{}</small>", text(found->value), at_step(*found)),
               best && found->value == *best ? "n best" : "n");
  };
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunRecord& run = runs[i];
    const RunResults& found = results[i];
    const std::optional<int64_t> total = run.total_steps();
    table.row();
    table.name(safe(names[i]), i);
    table.cell(grouped(run.last_step) +
                   (total ? fmt::format(" <small>of {}</small>", grouped(*total)) : ""),
               "n");
    point(found.eval_loss, number, lowest);
    if (has_accuracy) point(found.accuracy, percent, highest);
    table.cell(found.loss ? number(found.loss->value) : kNone, "n");
    table.cell(found.tokens_per_second ? human_amount(*found.tokens_per_second) : kNone, "n");
    if (has_mfu) table.cell(found.mfu ? percent(*found.mfu) : kNone, "n");
    if (has_bad) table.cell(grouped(run.skipped_steps), "n");
    if (has_bad) table.cell(grouped(run.rollbacks), "n");
  }
  table.end();
}

void add_differences(std::string& html, const std::vector<RunRecord>& runs,
                     const std::vector<std::string>& names) {
  const std::vector<KeyDifference> differences = key_differences(runs);
  html += "<h2>Keys that differ</h2>\n";
  if (differences.empty()) {
    html += "<p>The configurations are equal.</p>\n";
    return;
  }
  Table table(html);
  table.column("key");
  for (size_t i = 0; i < runs.size(); ++i) {
    table.column(fmt::format("<span class=\"run\" style=\"--c:var(--c{})\">{}</span>", i % kColors,
                             safe(names[i])));
  }
  for (const KeyDifference& difference : differences) {
    table.row();
    table.cell(fmt::format("<code>{}</code>", safe(difference.key)));
    for (const auto& value : difference.values) {
      table.cell(value ? fmt::format("<code>{}</code>", safe(*value)) : std::string(kNone));
    }
  }
  table.end();
}

/// Opens and closes an element that folds a long table.
class Fold {
 public:
  Fold(std::string& html, bool folds, std::string_view summary) : html_(html), folds_(folds) {
    if (folds_) append_html(html_, "<details><summary>{}</summary>\n", summary);
  }
  ~Fold() {
    if (folds_) html_ += "</details>\n";
  }
  Fold(const Fold&) = delete;
  Fold& operator=(const Fold&) = delete;

 private:
  std::string& html_;
  bool folds_;
};

/// Adds the texts that the models wrote last. The script lets the reader choose the step.
void add_samples(std::string& html, const std::vector<RunRecord>& runs,
                 const std::vector<std::string>& names) {
  const auto has = [](const RunRecord& run) { return !run.samples.empty(); };
  if (std::ranges::none_of(runs, has)) return;
  html +=
      "<section id=\"samples\"><h2>Samples</h2>\n"
      "<div class=\"choice\" id=\"sample-choice\" hidden>"
      "<button type=\"button\" id=\"sample-before\" aria-label=\"earlier samples\">◀</button>"
      "<input type=\"range\" id=\"sample-step\" min=\"0\" aria-label=\"step of the samples\">"
      "<button type=\"button\" id=\"sample-after\" aria-label=\"later samples\">▶</button>"
      "<output id=\"sample-at\" for=\"sample-step\"></output></div>\n";
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!has(runs[i])) continue;
    const RunSamples& last = runs[i].samples.back();
    append_html(html, "<div class=\"samples\" data-run=\"{}\"><h3>", i);
    if (runs.size() > 1) {
      append_html(html, "<span class=\"run\" style=\"--c:var(--c{})\">{}</span> ", i % kColors,
                  safe(names[i]));
    }
    append_html(html, "<small>step {}</small></h3><dl>", grouped(last.step));
    for (const auto& [prompt, text] : last.texts) {
      append_html(html, "<dt>{}</dt><dd>{}</dd>", escape_html(printable_lines(prompt)),
                  escape_html(printable_lines(text)));
    }
    html += "</dl></div>\n";
  }
  html += "</section>\n";
}

void add_events(std::string& html, const std::vector<RunRecord>& runs,
                const std::vector<std::string>& names) {
  size_t count = 0;
  for (const RunRecord& run : runs) count += run.events.size();
  if (count == 0) return;
  html += "<h2>Events</h2>\n";
  const Fold fold(html, count > kMostOpenEvents, fmt::format("{} events", count));
  Table table(html);
  if (runs.size() > 1) table.column("run");
  table.column("step", true);
  table.column("what happened");
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const RunEvent& event : runs[i].events) {
      table.row();
      if (runs.size() > 1) table.name(safe(names[i]), i);
      table.cell(grouped(event.step), "n");
      table.cell(safe(event.text));
    }
  }
  table.end();
}

void add_starts(std::string& html, const std::vector<RunRecord>& runs,
                const std::vector<std::string>& names) {
  size_t count = 0;
  for (const RunRecord& run : runs) count += run.starts.size();
  if (count == 0) return;
  html += "<h2>Starts under tessera supervise</h2>\n";
  const Fold fold(html, count > kMostOpenEvents, fmt::format("{} starts", count));
  Table table(html);
  if (runs.size() > 1) table.column("run");
  table.column("time");
  table.column("from step", true);
  table.column("saved step", true);
  table.column("ran for", true);
  table.column("why it ended");
  table.column("command");
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const RunStart& start : runs[i].starts) {
      const bool has_ended = !start.end.empty();
      table.row();
      if (runs.size() > 1) table.name(safe(names[i]), i);
      table.cell(safe(start.time));
      table.cell(grouped(start.step), "n");
      table.cell(has_ended ? grouped(start.saved_step) : std::string(kNone), "n");
      table.cell(has_ended ? human_duration(std::isnan(start.seconds) ? 0.0 : start.seconds)
                           : std::string(kNone),
                 "n");
      table.cell(has_ended ? safe(start.end) : "it has not ended");
      table.cell(fmt::format("<code>{}</code>{}", safe(start.command),
                             start.layout.empty() ? "" : "<br>" + safe(start.layout)));
    }
  }
  table.end();
}

void add_configurations(std::string& html, const std::vector<RunRecord>& runs,
                        const std::vector<std::string>& names, const ReportFrame& frame) {
  const bool has_plans =
      std::ranges::any_of(frame.plans, [](const std::string& plan) { return !plan.empty(); });
  const auto details = [&](const std::string& title, const std::string& text) {
    append_html(html, "<details><summary>{}</summary><pre>{}</pre></details>\n", title,
                escape_html(text));
  };
  html += has_plans ? "<h2>Configuration and memory plan</h2>\n" : "<h2>Configuration</h2>\n";
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::string name = runs.size() > 1 ? safe(names[i]) + ": " : "";
    if (!runs[i].config_text.empty()) details(name + "config.yaml", runs[i].config_text);
    if (i < frame.plans.size() && !frame.plans[i].empty()) {
      details(name + "memory plan of its layout", frame.plans[i]);
    }
  }
}

void add_header(std::string& html, const std::vector<RunRecord>& runs,
                const std::vector<std::string>& names) {
  if (runs.size() == 1) {
    const std::string model = describe(runs[0]);
    append_html(html, "<header><h1>{}</h1>\n<p>{}{}{}</p>\n", safe(names[0]), safe(runs[0].path),
                model.empty() ? "" : " · ", safe(model));
  } else {
    append_html(html, "<header><h1>{} runs compared</h1>\n", runs.size());
  }
  std::string problems;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const std::string& problem : runs[i].problems) {
      append_html(problems, "<li>{}{}</li>", runs.size() > 1 ? safe(names[i]) + ": " : "",
                  safe(problem));
    }
  }
  if (!problems.empty()) append_html(html, "<ul class=\"problems\">{}</ul>\n", problems);
  if (runs.size() == 1) {
    add_tiles(html, runs[0]);
  } else {
    add_results(html, runs, names);
  }
  html += "</header>\n";
}

void add_tools(std::string& html, const ReportFrame& frame) {
  html +=
      "<div class=\"tools\" id=\"tools\" hidden>"
      "<span class=\"group\" role=\"group\" aria-label=\"x axis\">"
      "<button type=\"button\" data-x=\"step\">steps</button>"
      "<button type=\"button\" data-x=\"tokens\">tokens</button></span>"
      "<label>smoothing <input type=\"range\" id=\"smooth\" min=\"0\" max=\"0.99\" step=\"0.01\">"
      "<output id=\"smooth-value\" for=\"smooth\"></output></label>"
      "<button type=\"button\" id=\"reset\" disabled>show all</button>";
  if (frame.reload_seconds) {
    append_html(html,
                "<label><input type=\"checkbox\" id=\"reload\" checked>reload every {} s</label>",
                *frame.reload_seconds);
  }
  html += "<output id=\"at\"></output></div>\n";
}

std::string title_of(const std::vector<RunRecord>& runs, const std::vector<std::string>& names) {
  return runs.size() == 1 ? fmt::format("{}: training report", printable(names[0]))
                          : fmt::format("{} runs: training report", runs.size());
}

}  // namespace

std::string to_html(const std::vector<RunRecord>& runs, const ReportFrame& frame) {
  require(!runs.empty(), "a report needs at least one run");
  const std::vector<std::string> names = short_names(runs);
  const std::vector<ReportPanel> panels = panels_for(runs);
  Json json = {{"panels", Json::array()}, {"runs", Json::array()}};
  for (const ReportPanel& panel : panels) json["panels"].push_back(to_json(panel));
  for (size_t i = 0; i < runs.size(); ++i) {
    json["runs"].push_back(to_json(runs[i], names[i], panels));
  }
  PageUses uses;
  uses.script = true;
  uses.data_images =
      std::ranges::any_of(runs, [](const RunRecord& run) { return run.attention.has_value(); });
  if (frame.reload_seconds) {
    json["reload_seconds"] = *frame.reload_seconds;
    uses.head = fmt::format("<noscript><meta http-equiv=\"refresh\" content=\"{}\"></noscript>\n",
                            *frame.reload_seconds);
  }
  std::string html =
      page_start(title_of(runs, names), fmt::format("{}{}", kPageCss, kReportCss), uses);
  add_header(html, runs, names);
  add_tools(html, frame);
  html += "<main>\n<div class=\"panels\" id=\"panels\"></div>\n";
  if (panels.empty()) html += "<p>Nothing is logged yet.</p>\n";
  html +=
      "<noscript><p>The charts need JavaScript; their numbers are in the page's source as JSON."
      "</p></noscript>\n"
      "<p class=\"faint\">Drag across a chart to zoom, double-click to show all; arrow keys move "
      "the cursor.</p>\n";
  add_samples(html, runs, names);
  add_attention(html, runs, names);
  if (runs.size() > 1) add_differences(html, runs, names);
  add_events(html, runs, names);
  add_starts(html, runs, names);
  add_configurations(html, runs, names, frame);
  append_html(html, "</main>\n<footer>Written by tessera report at {}{}.</footer>\n",
              escape_html(frame.written), frame.reload_seconds ? ", while a run is alive" : "");
  html += "<script type=\"application/json\" id=\"report\">" + json_for_script(json);
  append_html(html, "</script>\n<script>{}</script>\n</body></html>\n", kReportJs);
  return html;
}

}  // namespace tessera
