#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "launch/cli/commands.h"
#include "launch/cli/support/checkpoint_choice.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/loaded_model.h"
#include "launch/cli/support/process.h"
#include "launch/data/datasets/text_pairs.h"
#include "launch/data/images/image_dataset.h"
#include "launch/generation/target_generation.h"
#include "launch/support/files/whole_files.h"
#include "launch/support/text/html.h"
#include "launch/support/text/print.h"
#include "launch/tools/attention/attention_page.h"
#include "launch/tools/attention/record_attention.h"
#include "models/architecture.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

struct AttentionPageOptions {
  CheckpointChoice checkpoint;
  std::vector<std::string> texts;
  bool ids = false;                  ///< whether the texts are ids
  std::vector<std::string> sources;  ///< instead of texts, of an encoder–decoder
  std::vector<std::string> targets;  ///< of the sources; none: what the model writes
  std::vector<std::string> images;   ///< instead of texts, of a model of images
  bool pack = false;
  AttentionChoice choice;
  std::string output = "attention";
  bool overwrite = false;
  DeviceOptions devices;
};

/// The samples of a model that reads texts.
std::vector<Sample> samples_of_texts(const AttentionPageOptions& options,
                                     const LoadedModel& loaded) {
  const Tokenizer& tokenizer = *loaded.tokenizer;
  const ModelConfig& config = loaded.model->config();
  require(options.sources.empty(),
          "--source is for encoder-decoders, but this model is a {}: pass its text with --text",
          traits_of(config).name);
  if (!options.ids) require_tokenizer(tokenizer, "--text", loaded.path);
  std::vector<Sample> samples;
  for (const std::string& text : options.texts) {
    samples.push_back(options.ids ? sample_of_ids(tokenizer, config, text, "--ids")
                                  : sample_of_text(tokenizer, config, text));
  }
  if (options.pack) samples = {packed(samples)};
  return samples;
}

/// The samples of an encoder–decoder.
std::vector<Sample> samples_of_pairs(const AttentionPageOptions& options,
                                     const LoadedModel& loaded) {
  require(
      !options.sources.empty(),
      "{} is for models that read one text, but this model is an encoder-decoder: pass a source "
      "with --source and, unless the model shall write it, a target with --target",
      options.ids ? "--ids" : "--text");
  const Tokenizer& tokenizer = *loaded.tokenizer;
  const ModelConfig& config = loaded.model->config();
  const PairEncoder encoder(tokenizer, traits_of(config).source_length, config.seq_length, false);
  std::vector<Sample> samples;
  for (size_t i = 0; i < options.sources.size(); ++i) {
    Sample& sample = samples.emplace_back();
    if (options.targets.empty()) {
      sample = sample_with_written_target(*loaded.model, tokenizer, options.sources[i], "--source");
    } else {
      encoder.encode(options.sources[i], options.targets[i], "--source and --target", sample);
    }
  }
  return samples;
}

/// The images of a model of images, in its size.
std::vector<Pixels> images_for(const AttentionPageOptions& options, const ModelConfig& config) {
  require(!options.images.empty(),
          "the model sees images: pass a PNG or JPEG file with --image instead of a text");
  const ImageEncoder encoder(config);
  std::vector<Pixels> images;
  for (const std::string& path : options.images) {
    encoder.resize(images.emplace_back(read_image_file(path, config.num_channels)));
  }
  return images;
}

AttentionReport report_of(const AttentionPageOptions& options, const LoadedModel& loaded) {
  const ModelConfig& config = loaded.model->config();
  if (config.has_images()) {
    return record_attention(*loaded.model, images_for(options, config), options.choice);
  }
  require(options.images.empty(), "--image is for models of images, but this model is a {}",
          traits_of(config).name);
  const bool has_source = traits_of(config).source_length > 0;
  return record_attention(
      *loaded.model, *loaded.tokenizer,
      has_source ? samples_of_pairs(options, loaded) : samples_of_texts(options, loaded),
      options.choice);
}

void look(const AttentionPageOptions& options, Communicator& world) {
  const std::string json = options.output + ".json", html = options.output + ".html";
  Replace replace = Replace::refuse;
  all_or_none(world, [&] {
    if (world.rank() != 0) return;
    replace = replace_page(html, options.overwrite);  // then the numbers beside it are ours, too
    require_replaceable(html, replace);
    require_replaceable(json, replace);
  });
  const LoadedModel loaded = load_model(resolve(options.checkpoint, world), options.checkpoint.ema,
                                        options.devices, world);
  // All ranks see the same texts, so only writing can fail on one rank alone.
  all_alike(world, [&] {
    AttentionReport report = report_of(options, loaded);
    if (world.rank() != 0) return;
    report.checkpoint = loaded.path.string();
    write_whole_files({{json, to_json(report).dump() + "\n"}, {html, to_html(report)}}, replace);
    print_out("wrote {}\nwrote {}\n", json, html);
  });
}

}  // namespace

void add_attention_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<AttentionPageOptions>();
  CLI::App* command = app.add_subcommand(
      "attention",
      "Write an HTML page of what each attention head attends to in a text or an image");
  add_model_argument(*command, options->checkpoint);
  command->add_option("--text", options->texts, "A text; may be repeated")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  add_ids_option(*command, options->texts, "--text", "; may be repeated")->allow_extra_args(false);
  command->add_flag("--pack", options->pack,
                    "Pack the texts into one row, where they do not attend to each other");
  command
      ->add_option("--source", options->sources,
                   "With an encoder-decoder, instead of --text: a source text; may be repeated")
      ->allow_extra_args(false)
      ->type_name("TEXT")
      ->excludes("--text")
      ->excludes("--ids")
      ->excludes("--pack");
  command
      ->add_option(
          "--target", options->targets,
          "The target text of each --source (default: what the model writes, with the most "
          "likely token at each step)")
      ->allow_extra_args(false)
      ->type_name("TEXT")
      ->needs("--source");
  command
      ->add_option("--image", options->images,
                   "With a model of images, instead of --text: a PNG or JPEG file; may be repeated")
      ->allow_extra_args(false)
      ->type_name("FILE")
      ->excludes("--text")
      ->excludes("--ids")
      ->excludes("--pack")
      ->excludes("--source");
  command
      ->add_option("--layer", options->choice.layers,
                   "Show only this layer, counted from 0; may be repeated")
      ->check(whole_number_from(0))
      ->allow_extra_args(false)
      ->type_name("N");
  command
      ->add_option("--head", options->choice.heads,
                   "Show only this head, counted from 0; may be repeated")
      ->check(whole_number_from(0))
      ->allow_extra_args(false)
      ->type_name("N");
  command
      ->add_option("--output", options->output,
                   "Write PREFIX.html and PREFIX.json, also in place of earlier ones")
      ->type_name("PREFIX")
      ->capture_default_str();
  add_overwrite_option(*command, options->overwrite);
  add_device_options(*command, options->devices);
  command->callback([command, options, &exit_code] {
    options->ids = command->count("--ids") > 0;
    if (options->texts.empty() && options->sources.empty() && options->images.empty()) {
      throw CLI::RequiredError("--text, --ids, --source or --image");
    }
    if (!options->targets.empty() && options->targets.size() != options->sources.size()) {
      throw CLI::ValidationError(
          fmt::format("--target: there are {} for {} --source: pass one for each, or none",
                      options->targets.size(), options->sources.size()));
    }
    exit_code = run_on_ranks(command_line_of(*command),
                             [&](Communicator& world) { look(*options, world); });
  });
}

}  // namespace tessera
