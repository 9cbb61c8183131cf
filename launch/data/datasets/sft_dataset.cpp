#include "launch/data/datasets/sft_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "core/ops/cross_entropy.h"
#include "launch/data/datasets/sft_lines.h"
#include "launch/data/jinja/render_conversations.h"
#include "launch/data/sampling/sample_order.h"

namespace tessera {
namespace {

// For one start of python3: 2 MB of rows, or fewer of long ones, which are written for each reply.
constexpr size_t kShortRow = 2000, kMostWork = kShortRow * 2'000'000;

}  // namespace

SftExamples::SftExamples(const std::string& path, const ChatTemplate& chat,
                         const SftOptions& options, const RowOptions& rows)
    : path_(path), options_(options) {
  require(options.seq_length >= 1, "seq_length is {}, but must be at least 1", options.seq_length);
  ChatTokens example;
  int64_t line = 0;
  ToolRows waiting;
  std::vector<int64_t> waiting_lines;
  size_t work = 0;
  const auto encode_waiting = [&] {
    if (waiting.texts.empty()) return;
    const auto all =
        render_conversations(*chat.form(), waiting, rows.columns, chat.names_read_as_text());
    for (size_t i = 0; i < all.size(); ++i) {
      chat.encode_parts(all[i].parts, waiting.where[i], example, all[i].given);
      add(example, waiting.where[i], waiting_lines[i]);
    }
    waiting = {};
    waiting_lines.clear();
    work = 0;
  };
  const auto encode = [&](const SftLine& read) {
    const std::string where = fmt::format("{}:{}", path, read.number);
    if (read.with_tools.empty()) {
      chat.encode(read.messages, where, example, read.given);
      note_token_names(read.messages, chat, where);
      add(example, where, line++);
      return;
    }
    waiting.texts.emplace_back(read.with_tools);
    waiting.where.push_back(where);
    waiting.lists.assign(read.lists.begin(), read.lists.end());
    waiting_lines.push_back(line++);
    work += read.with_tools.size() * std::max(kShortRow, read.with_tools.size());
    if (work > kMostWork) encode_waiting();
  };
  for_each_sft_line(path, encode, rows);
  encode_waiting();
  require(line > 0, "{}: there is no example", path_);
  require(size() > 0,
          "{}: nothing of any completion is among the first {} tokens of its example, which fit "
          "into model.seq_length: train with a larger one",
          path_, options_.seq_length + 1);
}

void SftExamples::note_token_names(std::span<const Message> messages, const ChatTemplate& chat,
                                   const std::string& where) {
  for (size_t i = 0; first_token_name_.empty() && i < messages.size(); ++i) {
    if (const auto name = chat.token_named_in(messages[i].text)) {
      first_token_name_ = fmt::format("{}, message {}, contains {}", where, i + 1, *name);
    }
  }
}

void SftExamples::add(const ChatTokens& example, const std::string& where, int64_t line) {
  const auto most = static_cast<size_t>(options_.seq_length) + 1;
  const size_t length = std::min(example.tokens.size(), most);
  const bool too_long = example.tokens.size() > most;
  require(!too_long || options_.truncate,
          "{}: the example has {} tokens, but model.seq_length is {}, so at most {} fit: shorten "
          "it, truncate it (data.truncate=true), or train with a larger model.seq_length",
          where, example.tokens.size(), options_.seq_length, most);
  std::vector<bool> is_target(example.is_learned.begin(),
                              example.is_learned.begin() + static_cast<std::ptrdiff_t>(length));
  if (options_.loss_on_prompts) is_target.assign(length, true);
  // Nothing precedes the first token.
  const auto given = static_cast<size_t>(std::max<int64_t>(options_.prefix, 1));
  std::fill_n(is_target.begin(), std::min(given, length), false);
  const auto targets = std::ranges::count(is_target, true);
  if (targets == 0) {
    ++num_left_out_;
    return;
  }
  num_truncated_ += too_long ? 1 : 0;
  num_targets_ += targets;
  tokens_.insert(tokens_.end(), example.tokens.begin(),
                 example.tokens.begin() + static_cast<std::ptrdiff_t>(length));
  is_target_.insert(is_target_.end(), is_target.begin(), is_target.end());
  begins_.push_back(std::ssize(tokens_));
  lines_.push_back(line);
}

int32_t SftExamples::length(int64_t i) const {
  const auto index = static_cast<size_t>(i);
  return narrow<int32_t>(begins_[index + 1] - begins_[index] - 1);
}

void SftExamples::append(int64_t i, Sample& out) const {
  require(0 <= i && i < size(), "{}: there is no example {}: there are {}", path_, i, size());
  const int64_t begin = begins_[static_cast<size_t>(i)], inputs = length(i);
  for (int64_t token = begin; token < begin + inputs; ++token) {
    const auto next = static_cast<size_t>(token) + 1;
    out.tokens.push_back(tokens_[next - 1]);
    out.targets.push_back(is_target_[next] ? tokens_[next] : kIgnoreTarget);
  }
  out.document_lengths.push_back(static_cast<int32_t>(inputs));
}

SftDataset::SftDataset(std::shared_ptr<const SftExamples> examples, Range places)
    : examples_(std::move(examples)), places_(places) {
  require(0 <= places.begin && places.begin < places.end && places.end <= examples_->size(),
          "{}: the range of examples [{}, {}) is empty or not within the file, which has {}",
          examples_->path(), places.begin, places.end, examples_->size());
  std::vector<int32_t> lengths;
  lengths.reserve(static_cast<size_t>(places.size()));
  for (int64_t i = 0; i < places.size(); ++i) lengths.push_back(examples_->length(example_at(i)));
  rows_ = pack_rows(lengths, examples_->seq_length());
}

int64_t SftDataset::example_at(int64_t piece) const {
  return shuffled_place(examples_->size(), places_.begin + piece);
}

void SftDataset::fill(int64_t sample, int64_t /*epoch*/, Sample& out) const {
  require(0 <= sample && sample < num_samples(), "{}: there is no sample {}: there are {}",
          examples_->path(), sample, num_samples());
  out.clear();
  for (const int64_t piece : rows_.row(sample)) examples_->append(example_at(piece), out);
}

std::vector<TextOrigin> SftDataset::origins(int64_t sample, int64_t /*epoch*/) const {
  std::vector<TextOrigin> origins;
  for (const int64_t piece : rows_.row(sample)) {
    const int64_t line = examples_->line(example_at(piece));
    origins.push_back({std::ssize(origins), examples_->path(), "example", {line, line + 1}});
  }
  return origins;
}

}  // namespace tessera
