#include "core/error.h"
#include "launch/config/schema_list.h"
#include "launch/config/source_text.h"
#include "launch/config/write_config.h"

namespace tessera {
namespace {

constexpr const char* kIntroduction = R"(# Configuration

<!-- Written by `tessera config --markdown > docs/configuration.md` from launch/config/schema.h. -->

One YAML file says everything about a run:

    mpirun -np 2 build/cpu/tessera train configs/gpt_shakespeare.yaml

Any key can be overridden on the command line, as often as needed; the value is YAML, and of two for
the same key the later one wins:

    ... --set optimizer.lr=0.001 --set "optimizer.betas=[0.9, 0.99]" --set data.eval=null

A run writes what it has made of file, overrides and defaults to `config.yaml` in `run.dir`: every key,
so that the file alone repeats the run. Paths, there and here, are relative to the directory in which
the command runs. A run that resumes with other values says which: `train.steps: 1000 -> 2000`.

## What is an error

Nothing is guessed and nothing is ignored. All that is wrong with keys is reported at once, with file,
line and column, and with the key that was probably meant:

    configs/x.yaml:12:3: unknown key 'model.num_layer'; did you mean 'model.num_layers'? Keys of 'model' are: ...
    configs/x.yaml:15:3: model.dropout is 1.5, but must be a number from 0.0 to below 1.0
    --set batch.micro=two: batch.micro is two, but must be an integer from 1 to 100000000

- Unknown sections and keys, keys given twice, sections without keys, required keys that are missing.
- An **integer** has digits and nothing else: `12`, `-3`; `1e6` is taken too, as it is exact. `4.0` is not.
- A **number** is decimal and finite: `1`, `0.001`, `3.0e-4`.
- Neither is written in quotes, with underscores, in hexadecimal or with leading zeros.
- A truth value is `true` or `false`; `yes`, `on` and `1` are not.
- Text may stand in quotes or without, and is not empty. `null` is only for the keys that allow it.
- The file is one YAML document, in UTF-8 and of at most {} KiB, without anchors, aliases and tags.

What keys have to do with each other and with the number of ranks is checked before anything is
allocated, and the message names the values that would work.
)";

std::string key_row(const KeyInfo& key) {
  const std::string default_value =
      key.required ? "**required**" : fmt::format("`{}`", key.default_value);
  return fmt::format("| `{}` | {} | {} | {} |\n", key.name, key.allowed, default_value,
                     key.meaning);
}

}  // namespace

std::string config_markdown() {
  std::string page = fmt::format(kIntroduction, kMaxConfigBytes / 1024);
  for (const SectionInfo& section : config_sections()) {
    page += fmt::format("\n## `{}`\n\n{}\n\n", section.name, section.meaning);
    page += "| key | takes | default | meaning |\n|---|---|---|---|\n";
    for (const KeyInfo& key : section.keys) page += key_row(key);
  }
  return page;
}

}  // namespace tessera
