#include <utility>
#include <vector>

#include "core/error.h"
#include "launch/config/schema_list.h"
#include "launch/config/values/source_text.h"
#include "launch/config/write_config.h"
#include "models/architecture.h"

namespace tessera {
namespace {

constexpr const char* kIntroduction = R"(# Configuration

<!-- Written by `tessera config --markdown > docs/configuration.md` from launch/config/schema.h. -->

One YAML file configures a run. The least configuration names the data and the number of steps:

    data: {{train: data/text}}
    train: {{steps: 1000}}

    build/cpu/tessera run -np 2 train small.yaml

Every other key has a default. Where the default is `auto`, the value is derived: the vocabulary from the tokenizer, the
tokenizer from the dataset, labels from the training file, a model to fine-tune from `checkpoint.from`, the micro-batch
from the memory and the number of ranks. The start-up summary lists these values and where they come from, and so does
`tessera config small.yaml --ranks 2`. A resumed run keeps the values of its start, even if the data or the host has
changed; it chooses `batch.micro` again only if the old one does not divide a data rank's share. That also holds for a
run that is resumed with its own `config.yaml`.

`--set` overrides any key and may be repeated. The value is YAML; the last value of a key wins:

    ... --set optimizer.lr=0.001 --set "optimizer.betas=[0.9, 0.99]" --set data.eval=null

A file may include others, relative to its own folder, one or a list of them. They are read first, and the keys of the
file win:

    include: ../base.yaml
    optimizer: {{lr: 0.002}}

`tessera config A.yaml --diff B.yaml` prints the keys that differ and both values. Variables of the environment are not
replaced; `${{` is an error.

At start-up, all ranks compare their version, command line, resolved configuration, tokenizer and data (sizes and a
sampled checksum of each dataset). If they differ, no rank starts, and the error names the key, the values and the
ranks:

    error: the ranks do not belong together: optimizer.lr is 0.001 on ranks 0-2, but 0.1 on rank 3. Start all ranks with the same configuration and the same --set

A run writes its complete configuration (file, overrides, defaults and derived values) to `config.yaml` in `run.dir`.
That file alone repeats the run. Paths are relative to the directory in which the command runs. A resumed run lists the
keys that have changed: `train.steps: 1000 -> 2000`.

## Errors

Nothing is guessed and nothing is ignored. All errors are reported at once, with file, line and column. For an unknown
key they name the closest valid ones, or the key that another framework's name stands for (Megatron-LM, nanoGPT, Hugging
Face, DeepSpeed, torchtitan):

    configs/x.yaml:12:3: unknown key 'model.num_layer'; did you mean 'model.num_layers'?
    configs/x.yaml:13:3: unknown key 'model.n_embd'; it is called model.hidden_size here
    configs/x.yaml:15:3: model.dropout is 1.5, but must be a number from 0.0 to below 1.0
    --set batch.micro=two: batch.micro is two, but must be an integer from 1 to 100000000

- Unknown sections and keys, repeated keys, sections without keys and missing required keys are errors.
- An **integer** consists of digits: `12`, `-3`. `1e6` is accepted because it is exact; `4.0` is not.
- A **number** is decimal and finite: `1`, `0.001`, `3.0e-4`.
- Quotes, underscores, hexadecimal digits and leading zeros are not accepted in either.
- A truth value is `true` or `false`; `yes`, `on` and `1` are not accepted.
- Text may be quoted and is not empty. `null` is accepted only where listed.
- The file is one YAML document in UTF-8 of at most {} KiB, without anchors, aliases and tags.

Rules between keys, and between keys and the number of ranks, are checked before anything is allocated. The message
names the values that would work.
)";

std::string key_row(const KeyInfo& key) {
  const std::string default_value =
      !key.alternative.empty() ? fmt::format("**required**, or `{}`", key.alternative)
      : key.required           ? "**required**"
      : key.by_kind            ? "by `kind`"
                               : fmt::format("`{}`", key.derived ? "auto" : key.default_value);
  return fmt::format("| `{}` | {} | {} | {} |\n", key.name, key.allowed, default_value,
                     key.meaning);
}

/// A table of what model.kind sets: a row for each key, a column for each kind.
std::string preset_table() {
  std::string head = "\nDefaults by `kind`:\n\n| key |", line = "|---|";
  for (const Architecture& architecture : architectures()) {
    head += fmt::format(" `{}` |", architecture.name);
    line += "---|";
  }
  std::string table = head + "\n" + line + "\n";
  for (const KeyInfo& key : model_keys()) {
    if (!key.by_kind) continue;
    table += fmt::format("| `{}` |", key.name);
    for (const Architecture& architecture : architectures()) {
      RunConfig defaults;
      defaults.model = preset(architecture.kind);
      table += fmt::format(" {} |", key.access->write(defaults));
    }
    table += "\n";
  }
  return table;
}

}  // namespace

std::string config_markdown() {
  std::string page = fmt::format(kIntroduction, kMaxConfigBytes / 1024);
  for (const SectionInfo& section : config_sections()) {
    page += fmt::format("\n## `{}`\n\n{}\n\n", section.name, section.meaning);
    page += "| key | value | default | meaning |\n|---|---|---|---|\n";
    for (const KeyInfo& key : section.keys) page += key_row(key);
    if (section.name == "model") page += preset_table();
  }
  return page;
}

}  // namespace tessera
