#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "launch/support/text/human_text.h"
#include "launch/support/text/table.h"
#include "launch/tools/plan/roofline.h"
#include "launch/train/train_step.h"
#include "models/architecture.h"

namespace tessera {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr const char* kMeaning =
    "a bound from data sheets, not a measurement: each op reads and writes each tensor once, at "
    "the "
    "memory's full bandwidth or at the peak of its FLOPs";

std::string milliseconds(double seconds) { return fmt::format("{:.3f}", 1e3 * seconds); }

std::string amount(double value) { return value > 0.0 ? human_amount(value) : "0 "; }

/// A part of a step: the sum of its lines.
struct StepPart {
  std::string name;
  std::vector<const RooflineLine*> lines;
  OpWork work;
  double seconds = 0.0;
};

std::vector<StepPart> parts_of(const Roofline& roofline) {
  std::vector<StepPart> parts;
  for (const RooflineLine& line : roofline.lines) {
    auto part = std::ranges::find(parts, line.part, &StepPart::name);
    if (part == parts.end()) part = parts.insert(parts.end(), {line.part, {}, {}});
    part->lines.push_back(&line);
    part->work += line.work;
    part->seconds += line.seconds;
  }
  return parts;
}

OpWork work_of(const Roofline& roofline) {
  OpWork work;
  for (const RooflineLine& line : roofline.lines) work += line.work;
  return work;
}

std::string batch_text(const Roofline& roofline) {
  const RunConfig& config = roofline.config;
  return fmt::format("{} sequences, {} tokens a step; {} micro-batches of {} a rank",
                     config.batch.global, grouped(roofline.counts.tokens),
                     batch_share(config.batch, roofline.grid.data()).micro_batches,
                     config.batch.micro);
}

std::string lines_text(const Roofline& roofline) {
  Rows rows = {{"part", "op", "calls", "matmul FLOP", "other FLOP", "bytes", "ms", "bound by"}};
  for (const StepPart& part : parts_of(roofline)) {
    for (const RooflineLine* line : part.lines) {
      rows.push_back({line == part.lines.front() ? part.name : "", line->op, grouped(line->calls),
                      amount(line->work.matmul_flops), amount(line->work.flops),
                      amount(line->work.bytes()), milliseconds(line->seconds),
                      line->bound_by_flops() ? "FLOPs" : "memory"});
    }
    if (part.lines.size() == 1) continue;
    rows.push_back({"", "sum", "", amount(part.work.matmul_flops), amount(part.work.flops),
                    amount(part.work.bytes()), milliseconds(part.seconds)});
  }
  return table(rows, {2, 3, 4, 5, 6});
}

std::string exchanges_text(const Roofline& roofline) {
  if (roofline.exchanges.empty()) return "";
  Rows rows = {{"ranks", "for", "by", "calls", "a rank sends", "ms", "ms not hidden"}};
  for (const RooflineExchange& exchange : roofline.exchanges) {
    rows.push_back({fmt::format("{} {}", exchange.ranks, exchange.group), exchange.purpose,
                    exchange.collective, grouped(exchange.calls), amount(exchange.bytes_sent) + "B",
                    milliseconds(exchange.seconds), milliseconds(exchange.waited)});
  }
  return table(rows, {3, 4, 5, 6});
}

Json json_of(const OpWork& work) {
  return {{"matmul_flops", work.matmul_flops},
          {"other_flops", work.flops},
          {"bytes_read", work.bytes_read},
          {"bytes_written", work.bytes_written}};
}

Json json_of(const RooflineLine& line) {
  Json json = json_of(line.work);
  json["part"] = line.part;
  json["op"] = line.op;
  json["calls"] = line.calls;
  json["seconds"] = line.seconds;
  json["bound_by"] = line.bound_by_flops() ? "flops" : "memory";
  return json;
}

Json json_of(const RooflineExchange& exchange) {
  return {{"group", exchange.group},     {"ranks", exchange.ranks},
          {"for", exchange.purpose},     {"collective", exchange.collective},
          {"calls", exchange.calls},     {"bytes_sent", exchange.bytes_sent},
          {"seconds", exchange.seconds}, {"seconds_not_hidden", exchange.waited}};
}

/// A row of a Markdown table.
std::string markdown_row(const std::vector<std::string>& cells) {
  std::string row = "|";
  for (const std::string& cell : cells) row += fmt::format(" {} |", cell);
  return row + "\n";
}

/// Cells of what a line or a part does: GFLOP of products, GFLOP of others, GB.
std::vector<std::string> work_cells(const OpWork& work) {
  const auto giga = [](double value) {
    return value > 0.0 ? fmt::format("{:.{}f}", value / 1e9, value < 99.95e9 ? 2 : 0) : "";
  };
  return {giga(work.matmul_flops), giga(work.flops), giga(work.bytes())};
}

/// Adds a cell for each roofline.
template <typename Cell>
std::vector<std::string> with_cells(std::vector<std::string> cells,
                                    const std::vector<Roofline>& rooflines, Cell&& cell) {
  for (const Roofline& roofline : rooflines) cells.push_back(cell(roofline));
  return cells;
}

/// The rows of part number `index`, its sum first.
std::string part_rows(const std::vector<Roofline>& rooflines, size_t index) {
  const StepPart whole = parts_of(rooflines.front())[index];
  const auto row = [&](const std::string& name, const std::string& op, const std::string& calls,
                       const OpWork& work, auto&& cell) {
    std::vector<std::string> cells = {name, op, calls};
    for (const std::string& amount_cell : work_cells(work)) cells.push_back(amount_cell);
    return markdown_row(with_cells(cells, rooflines, cell));
  };
  std::string text = row(
      fmt::format("**{}**", whole.name), "", "", whole.work,
      [&](const Roofline& roofline) { return milliseconds(parts_of(roofline)[index].seconds); });
  for (size_t i = 0; i < whole.lines.size(); ++i) {
    const RooflineLine& line = *whole.lines[i];
    text += row("", fmt::format("`{}`", line.op), grouped(line.calls), line.work,
                [&](const Roofline& roofline) {
                  const RooflineLine& same = *parts_of(roofline)[index].lines[i];
                  return milliseconds(same.seconds) + (same.bound_by_flops() ? " F" : "");
                });
  }
  return text;
}

/// The first two rows of a table with a column for each GPU after `names`, the first `left` of
/// which are text.
std::string header_rows(const std::vector<std::string>& names, size_t left,
                        const std::vector<Roofline>& rooflines) {
  const std::vector<std::string> all = with_cells(names, rooflines, [](const Roofline& roofline) {
    return std::string(roofline.gpu.peaks.name);
  });
  std::string line = "|";
  for (size_t i = 0; i < all.size(); ++i) line += i < left ? "---|" : "--:|";
  return markdown_row(all) + line + "\n";
}

std::string exchange_rows(const std::vector<Roofline>& rooflines) {
  const std::vector<RooflineExchange>& exchanges = rooflines.front().exchanges;
  if (exchanges.empty()) return "";
  std::string text = "\n" + header_rows({"ranks", "for", "by", "calls", "GB sent"}, 3, rooflines);
  for (size_t i = 0; i < exchanges.size(); ++i) {
    const RooflineExchange& exchange = exchanges[i];
    text += markdown_row(with_cells(
        {fmt::format("{} {}", exchange.ranks, exchange.group), exchange.purpose,
         fmt::format("`{}`", exchange.collective), grouped(exchange.calls),
         fmt::format("{:.3f}", exchange.bytes_sent / 1e9)},
        rooflines, [&](const Roofline& roofline) {
          const RooflineExchange& same = roofline.exchanges[i];
          return fmt::format("{} ({})", milliseconds(same.seconds), milliseconds(same.waited));
        }));
  }
  return text;
}

/// Steps of the whole run, and what it costs.
struct WholeRun {
  explicit WholeRun(const Roofline& roofline)
      : steps(roofline.config.train.steps),
        tokens(static_cast<double>(steps) * static_cast<double>(roofline.counts.tokens)),
        seconds(static_cast<double>(steps) * roofline.seconds()),
        gpu_hours(seconds / 3600.0 * roofline.grid.world_size()) {}

  int64_t steps;
  double tokens, seconds, gpu_hours;
};

}  // namespace

Json speeds_json(const Roofline& roofline) {
  const RooflineGpu& gpu = roofline.gpu;
  const RunSection& run = roofline.config.run;
  return {
      {"name", gpu.peaks.name},
      {"matmul_flops", gpu.peaks.matmul_flops(run.precision, run.tf32) * gpu.reached.products},
      {"attention_flops", gpu.peaks.matmul_flops(run.precision, run.tf32) * gpu.reached.attention},
      {"other_flops", gpu.peaks.fp32},
      {"memory_bandwidth", gpu.peaks.memory_bandwidth * gpu.reached.memory},
      {"tensor_bandwidth", gpu.tensor_bandwidth},
      {"data_bandwidth", gpu.data_bandwidth},
      {"latency", gpu.latency},
      {"hides_exchanges", gpu.overlaps}};
}

std::string speeds_text(const Roofline& roofline) {
  const RooflineGpu& gpu = roofline.gpu;
  const GpuPeaks& peaks = gpu.peaks;
  const RunSection& run = roofline.config.run;
  const double products = peaks.matmul_flops(run.precision, run.tf32);
  const bool is_tf32 = run.precision == DType::f32 && run.tf32;
  std::string text = fmt::format("{}FLOP/s of matrix products in {}, ",
                                 human_amount(products * gpu.reached.products),
                                 is_tf32 ? "tf32" : to_string(run.precision.dtype));
  if (run.precision.fp8) {
    text += fmt::format("{}FLOP/s in fp8,\n           ",
                        human_amount(peaks.fp8 * gpu.reached.products));
  }
  if (!gpu.is_bound) {
    text += fmt::format("{}FLOP/s in attention,\n           ",
                        human_amount(products * gpu.reached.attention));
  }
  text += fmt::format("{}FLOP/s of other kinds, {}B/s of memory\n", human_amount(peaks.fp32),
                      human_amount(peaks.memory_bandwidth * gpu.reached.memory));
  if (roofline.grid.world_size() == 1) return text;
  text += fmt::format("           {}B/s sent to tensor ranks, {}B/s to data ranks",
                      amount(gpu.tensor_bandwidth), amount(gpu.data_bandwidth));
  if (gpu.latency > 0.0) text += fmt::format(", {:g} us per exchange", gpu.latency * 1e6);
  return text + (gpu.overlaps ? "\n" : ", none of it hidden\n");
}

/// How large micro-batches of sharded blocks should be; "" without them.
std::string hidden_text(const Roofline& roofline) {
  const auto tokens = roofline.tokens_that_hide_shards();
  if (!tokens) return "";
  const RunConfig& config = roofline.config;
  return fmt::format(
      "           blocks hide the exchange of their shards with {} tokens a micro-batch, and this "
      "run has {}\n",
      grouped(*tokens), grouped(config.batch.micro * traits_of(config.model).row_length));
}

std::string time_text(const Roofline& roofline) {
  const WholeRun run(roofline);
  return fmt::format(
      "time       {} ms a step on {}: {}tokens/s, MFU {:.1f}%\n"
      "           {} for {} steps with {}tokens: {:.{}f} GPU hours\n"
      "{}           a prediction; assumed {}",
      milliseconds(roofline.seconds()), roofline.gpu.peaks.name,
      human_amount(roofline.tokens_per_second()), 100.0 * roofline.mfu(),
      human_duration(run.seconds), grouped(run.steps), human_amount(run.tokens), run.gpu_hours,
      run.gpu_hours < 100.0 ? 1 : 0, hidden_text(roofline), speeds_text(roofline));
}

Json time_json(const Roofline& roofline) {
  const WholeRun run(roofline);
  Json json = {{"assumed", speeds_json(roofline)},
               {"step_seconds", roofline.seconds()},
               {"tokens_per_second", roofline.tokens_per_second()},
               {"mfu", roofline.mfu()},
               {"steps", run.steps},
               {"tokens", run.tokens},
               {"seconds", run.seconds},
               {"gpu_hours", run.gpu_hours}};
  if (const auto tokens = roofline.tokens_that_hide_shards()) {
    json["tokens_that_hide_shards"] = *tokens;
  }
  return json;
}

std::string to_string(const Roofline& roofline) {
  const OpWork work = work_of(roofline);
  std::string text =
      fmt::format("a lower bound on the time of a step of {} on {}; nothing was run\n",
                  roofline.config.run.dir, roofline.gpu.peaks.name);
  text += fmt::format("ranks      {} = {}\n", roofline.grid.world_size(), to_string(roofline.grid));
  text += fmt::format("model      {}, {}\n", human_model(roofline.config.model),
                      to_string(roofline.config.run.precision));
  text +=
      fmt::format("batch      {}\n", batch_text(roofline)) + "peaks      " + speeds_text(roofline);
  text += lines_text(roofline) + exchanges_text(roofline);
  text += fmt::format("a rank     {}FLOP of products, {}FLOP of other ops, {}B\n",
                      amount(work.matmul_flops), amount(work.flops), amount(work.bytes()));
  text +=
      fmt::format("step       at least {} ms: {} of ops, {} of exchanges that ops do not hide\n",
                  milliseconds(roofline.seconds()), milliseconds(roofline.compute_seconds),
                  milliseconds(roofline.waited_seconds));
  text += fmt::format("           {}tokens/s at most, MFU at most {:.1f}%\n",
                      human_amount(roofline.tokens_per_second()), 100.0 * roofline.mfu());
  return text + fmt::format("           {}\n", kMeaning);
}

Json to_json(const Roofline& roofline) {
  Json lines = Json::array(), exchanges = Json::array();
  for (const RooflineLine& line : roofline.lines) lines.push_back(json_of(line));
  for (const RooflineExchange& exchange : roofline.exchanges)
    exchanges.push_back(json_of(exchange));
  return {{"run", roofline.config.run.dir},
          {"ranks", roofline.grid.world_size()},
          {"tensor", roofline.grid.tensor()},
          {"data", roofline.grid.data()},
          {"gpu", speeds_json(roofline)},
          {"meaning", kMeaning},
          {"tokens", roofline.counts.tokens},
          {"work_of_rank", json_of(work_of(roofline))},
          {"ops", lines},
          {"exchanges", exchanges},
          {"seconds", roofline.seconds()},
          {"compute_seconds", roofline.compute_seconds},
          {"exchange_seconds_not_hidden", roofline.waited_seconds},
          {"tokens_per_second", roofline.tokens_per_second()},
          {"mfu", roofline.mfu()}};
}

std::string roofline_markdown(const std::vector<Roofline>& rooflines) {
  const Roofline& first = rooflines.front();
  std::string text = fmt::format("{}, {}. {} ranks = {}. {}.\n\n", human_model(first.config.model),
                                 to_string(first.config.run.precision), first.grid.world_size(),
                                 to_string(first.grid), batch_text(first));
  text +=
      header_rows({"part", "op", "calls", "GFLOP of products", "other GFLOP", "GB"}, 2, rooflines);
  for (size_t i = 0; i < parts_of(first).size(); ++i) text += part_rows(rooflines, i);
  const auto total = [&](const std::string& name, const std::vector<std::string>& work,
                         auto&& cell) {
    text += markdown_row(with_cells(
        {fmt::format("**{}**", name), "", "", work[0], work[1], work[2]}, rooflines, cell));
  };
  const std::vector<std::string> none(3);
  total("all ops", work_cells(work_of(first)),
        [](const Roofline& roofline) { return milliseconds(roofline.compute_seconds); });
  if (!first.exchanges.empty()) {
    total("exchanges not hidden", none,
          [](const Roofline& roofline) { return milliseconds(roofline.waited_seconds); });
  }
  total("whole step", none,
        [](const Roofline& roofline) { return milliseconds(roofline.seconds()); });
  total("tokens/s at most", none, [](const Roofline& roofline) {
    return grouped(static_cast<int64_t>(roofline.tokens_per_second()));
  });
  total("MFU at most", none,
        [](const Roofline& roofline) { return fmt::format("{:.1f}%", 100.0 * roofline.mfu()); });
  return text + exchange_rows(rooflines);
}

}  // namespace tessera
