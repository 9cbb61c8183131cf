#!/usr/bin/env bash
# Checks Tessera on a machine with one NVIDIA GPU, then measures it, in less than nine minutes:
#
#   tests/gpu/check.sh [--tiny] [--out FOLDER] [--only PARTS] [BIN]
#
# BIN holds tessera and the tests: in a bundle (bundle.sh) its bin, else build/cuda, which is built first.
# Every part has a time limit of its own and the next goes on when one fails. FOLDER (gpu-check) gets
# results.json, results.md and a log of each part. --tiny takes fewer steps, measures small models and has
# an hour: for trying this script out, also on an emulated GPU (TESSERA_SIMT_DEVICES=1), where what it can
# not do is skipped with a note, and its times, which mean nothing, are left out of results.md. PYTHON is
# the one with torch.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
self=$here/$(basename "${BASH_SOURCE[0]}")

tiny=0 out=gpu-check only='' bin='' part=''
while [ $# -gt 0 ]; do
  case $1 in
    --tiny) tiny=1 ;;
    --out) out=$2; shift ;;
    --only) only=" $2 "; shift ;;
    --part) part=$2; shift ;;
    -*) sed -n '2,12s/^# \{0,1\}//p' "$self"; exit 2 ;;
    *) bin=$1 ;;
  esac
  shift
done

if [ -e "$here/env.sh" ] && [ -d "$here/libexec" ]; then
  root=$here bin=${bin:-$here/bin}
else
  root=$(cd "$here/../.." && pwd)
  if [ -z "$bin" ]; then
    (cd "$root" && . launch/set_up.sh && build cuda tessera core_tests models_tests parallel_mpi_tests kernel_times) || exit 1
    bin=$root/build/cuda
  fi
fi
mkdir -p "$out" && out=$(cd "$out" && pwd)
bin=$(cd "$bin" && pwd)
data=$out/data
steps=50 slower=1
[ $tiny = 1 ] && steps=10 slower=8

program() { if [ -x "$bin/$1" ]; then echo "$bin/$1"; else echo "$bin/tests/$1"; fi; }
tessera=$(program tessera)
mpirun=mpirun
[ -x "$bin/mpirun" ] && mpirun=$bin/mpirun
ranks() { # ranks N PROGRAM...
  local n=$1
  shift
  "$mpirun" --allow-run-as-root --oversubscribe --bind-to none -np "$n" "$@"
}
note() { echo "note: $*"; }
emulated() { [ -n "${TESSERA_SIMT_DEVICES:-}" ]; }
seconds_left() { echo $((${PART_SECONDS:-60} - SECONDS)); } # of the part that this is

# --- small models, whose losses are compared ------------------------------------------------------------

# small KIND RUN STEPS [KEY=VALUE...]: trains a small model in $out/runs/RUN; RANKS of them.
small() {
  local kind=$1 run=$2 stop=$3 key settings=()
  shift 3
  for key in "$@"; do settings+=(--set "$key"); done
  local config=$out/$kind.yaml
  {
    echo "run: {dir: $out/runs/$run, precision: fp32}"
    echo "model: {kind: $kind, num_layers: 2, hidden_size: 64, num_heads: 4, seq_length: 64, vocab_size: 1000, dropout: 0.0, attention_dropout: 0.0}"
    echo "data: {train: $data/1000, tokenizer: 'wordpiece:$data/1000.txt'}"
    echo "batch: {global: 8, micro: 4}"
    echo "train: {steps: $steps}"
    echo "optimizer: {lr: 1.0e-3, warmup_steps: 5}"
    echo "log: {interval: 1}"
  } >"$config"
  ranks "${RANKS:-1}" "$tessera" train "$config" --set run.dir="$out/runs/$run" "${settings[@]}" --stop-at "$stop"
}

losses() { sed -n 's/.*"loss":\([-0-9.e+]*\).*"step":\([0-9]*\).*/\2 \1/p' "$out/runs/$1/metrics.jsonl"; }

# same_weights A B: the newest checkpoints' tensors, byte for byte.
same_weights() {
  local a b file status=0
  a=$(find "$out/runs/$1/checkpoints" -maxdepth 1 -name 'step_*' | sort | tail -n 1)
  b=$out/runs/$2/checkpoints/${a##*/}
  for file in "$a"/*.safetensors; do
    if [ ! -e "$file" ] || ! cmp "$file" "$b/${file##*/}"; then status=1; fi
  done
  [ $status = 0 ] && note "$2: the weights and moments of $1, byte for byte"
  return $status
}

# same A B STEPS TOLERANCE: the losses of two runs, relatively.
same() {
  { losses "$1" | sed 's/^/a /'; losses "$2" | sed 's/^/b /'; } | awk -v steps="$3" -v tolerance="$4" -v what="$2 against $1" '
    $1 == "a" {a[$2] = $3} $1 == "b" {b[$2] = $3}
    END {
      for (i = 1; i <= steps; ++i) {
        if (!(i in a) || !(i in b)) {print what ": step " i " is missing"; exit 1}
        d = (b[i] - a[i]) / a[i]; if (d < 0) d = -d
        if (!(d <= worst)) {worst = d; at = i}
      }
      printf "note: %s: at most %.2g apart (step %d), %.2g allowed\n", what, worst, at, tolerance
      exit !(worst <= tolerance)
    }'
}

# fp32: a sum in another order differs by about 2⁻²⁴ × √length, 1e-6; AdamW turns what that changes in
# gradients near zero into steps of up to lr = 1e-3 of a few weights, 50 times.
fp32=1e-4
# bf16: weights and activations are rounded to 2⁻⁹ = 2e-3; a loss is a mean over 512 tokens, so that the
# roundings of one step mostly cancel, but those of the weights' are fed back for 50 steps.
bf16=1e-2

part_versions() {
  "$tessera" --version || return 1
  nvidia-smi || note 'there is no nvidia-smi'
}
part_ops() { TESSERA_TEST_DEVICE=cuda CUDA_LAUNCH_BLOCKING=1 "$(program core_tests)" --gtest_brief=1; }
part_models() { TESSERA_TEST_DEVICE=cuda CUDA_LAUNCH_BLOCKING=1 "$(program models_tests)" --gtest_brief=1; }
part_communicators() { ranks 2 "$(program parallel_mpi_tests)" --gtest_filter='*Gpu*' --gtest_brief=1; }
losses_of() {
  local kind=$1 status=0
  small "$kind" "$kind-cpu" $steps run.device=cpu && small "$kind" "$kind-gpu" $steps run.device=cuda || return 1
  same "$kind-cpu" "$kind-gpu" $steps $fp32 || status=1
  small "$kind" "$kind-gpu-bf16" $steps run.device=cuda run.precision=bf16 || return 1
  same "$kind-cpu" "$kind-gpu-bf16" $steps $bf16 || status=1
  return $status
}
part_gpt() { losses_of gpt; }
part_bert() { losses_of bert; }
few=$((steps * 2 / 5))
part_layouts() {
  local status=0 layout
  small gpt gpt-whole $few run.device=cuda || return 1
  for layout in tensor data; do
    RANKS=2 small gpt "gpt-$layout" $few run.device=cuda parallel.backend=mpi \
      parallel.tensor=$([ $layout = tensor ] && echo 2 || echo 1) || return 1
    same gpt-whole "gpt-$layout" $few $fp32 || status=1
  done
  return $status
}
part_nccl() {
  emulated && note 'an emulated GPU has no NCCL' && return 77
  small gpt gpt-one $few run.device=cuda && small gpt gpt-nccl $few run.device=cuda parallel.backend=nccl || return 1
  same gpt-one gpt-nccl $few 0
}
part_resume() {
  local status=0
  small gpt resume-cpu $steps run.device=cpu || return 1
  small gpt cpu-to-gpu $((steps / 2)) run.device=cpu && small gpt cpu-to-gpu $steps run.device=cuda checkpoint.resume=required || return 1
  same resume-cpu cpu-to-gpu $steps $fp32 || status=1
  small gpt gpu-to-cpu $((steps / 2)) run.device=cuda && small gpt gpu-to-cpu $steps run.device=cpu checkpoint.resume=required || return 1
  same resume-cpu gpu-to-cpu $steps $fp32 || status=1
  return $status
}
# One configuration is the same bits each time, and with CUDA graphs or without.
part_bitwise() {
  local status=0 bf16=(run.device=cuda run.precision=bf16 optimizer.stochastic_rounding=true)
  small gpt bits-a $few "${bf16[@]}" && small gpt bits-b $few "${bf16[@]}" || return 1
  same bits-a bits-b $few 0 && same_weights bits-a bits-b || status=1
  small gpt graph $few run.device=cuda && small gpt no-graph $few run.device=cuda train.cuda_graph=off || return 1
  same graph no-graph $few 0 && same_weights graph no-graph || status=1
  return $status
}

# Greedy texts and the loss of an evaluation, on a GPU and on the CPU, of one checkpoint.
part_answers() {
  local status=0 device
  small gpt answers $few run.device=cpu || return 1
  for device in cpu cuda; do
    "$tessera" generate --checkpoint "$out/runs/answers" --prompt 'w1 w2 w3' --max-tokens 40 --temperature 0 \
      --device $device >"$out/generated-$device.txt" || return 1
    "$tessera" eval --checkpoint "$out/runs/answers" --data "$data/1000" --max-samples 64 --json --device $device \
      >"$out/evaluated-$device.json" || return 1
  done
  if cmp "$out/generated-cpu.txt" "$out/generated-cuda.txt"; then
    note "generate: $(wc -w <"$out/generated-cuda.txt") words are the CPU's"
  else
    status=1
  fi
  # As fp32 above, without steps that would feed differences back.
  paste -d ' ' <(loss_of "$out/evaluated-cpu.json") <(loss_of "$out/evaluated-cuda.json") | awk '
    NF != 2 {print "eval printed no loss"; exit 1}
    {d = ($2 - $1) / $1; if (d < 0) d = -d; printf "note: eval: %.2g apart, 1e-5 allowed\n", d; exit !(d <= 1e-5)}' || status=1
  return $status
}
loss_of() { tr -d ' \n' <"$1" | sed -n 's/.*"loss":\([-0-9.e+]*\).*/\1/p'; }

part_kernels() {
  local options=()
  [ $tiny = 1 ] && options=(--tiny)
  "$(program kernel_times)" "${options[@]}"
}

# sanitize TOOL FILTER...: groups of tests, each in its share of the time that is left. What is checked takes
# ten to a hundred times as long, so that each group is of few and small kernels.
sanitize() {
  local tool=$1 filter status=0 limit
  shift
  local groups=$#
  emulated && note "$tool is for a real GPU" && return 77
  command -v compute-sanitizer >/dev/null || { note 'compute-sanitizer is not here'; return 77; }
  for filter in "$@"; do
    limit=$((($(seconds_left) - 2) / groups))
    groups=$((groups - 1))
    if [ $limit -lt 3 ]; then
      note "no time was left for $filter"
      continue
    fi
    TESSERA_TEST_DEVICE=cuda CUDA_LAUNCH_BLOCKING=1 timeout -k 1 $limit compute-sanitizer --tool "$tool" \
      --target-processes all --error-exitcode 1 "$(program core_tests)" --gtest_brief=1 --gtest_filter="$filter"
    case $? in
      0) ;;
      124 | 137) note "$filter: out of time, with no error until then" ;;
      *) note "$filter: FAILED"; status=1 ;;
    esac
  done
  return $status
}
attention_tests='Attention*IsTheTextbooks*:AttentionProperties.*-AttentionReference*'
part_memcheck() {
  sanitize memcheck 'KeyValues*:Rotary*:*Matmul*-*AnyNumberOfKinds*' 'AdamW*:StochasticRounding*:LayerNorm*:Rows*' \
    "$attention_tests" 'Elementwise*:Gelu*:Embedding*:CrossEntropy*:Dropout*' 'AttentionMasks*AreTheTextbooks*'
}
part_racecheck() {
  sanitize racecheck 'KeyValues*:Rotary*:*Matmul*-*AnyNumberOfKinds*' "$attention_tests" \
    'LayerNorm*:CrossEntropy*:ColumnSum*:Reduce*' 'Embedding*' 'AttentionMasks*AreTheTextbooks*'
}

# --- measurements -----------------------------------------------------------------------------------------

# model | T | rows of a micro-batch, of both kinds first: time may not be enough for all
measured='gpt2_124m 1024 32
bert_base 128 256
gpt2_1.5b 1024 8
bert_large 512 32
gpt2_350m 1024 16
bert_base 512 64
bert_large 128 128'
[ $tiny = 1 ] && measured='gpt2_124m 64 4
bert_base 64 4'

# measure MODEL T ROWS: steps until there are enough or the time is up, without a checkpoint.
measure() {
  local model=$1 length=$2 rows=$3 settings=() key run=$out/runs/$1-$2 lines=0 until pid used most=0 enough=24
  rm -rf "$run"
  local vocabulary=50257 every=3 # asking each step would make each wait
  [[ $model = bert* ]] && vocabulary=30522 && settings+=(--set model.next_sentence=false --set model.token_types=2)
  if [ $tiny = 1 ]; then
    enough=8 every=1 vocabulary=1000
    settings+=(--set model.vocab_size=1000 --set model.num_layers=2 --set model.hidden_size=64 --set model.num_heads=4)
  fi
  for key in run.dir="$run" run.device=cuda model.seq_length="$length" data.train="$data/$vocabulary" data.eval_fraction=0 \
    eval.interval=0 data.tokenizer="wordpiece:$data/$vocabulary.txt" batch.global="$rows" batch.micro="$rows" \
    train.steps=100000 checkpoint.interval=0 log.interval=$every; do
    settings+=(--set "$key")
  done
  "$tessera" train "$root/configs/$model.yaml" "${settings[@]}" >"$out/logs/$model-$length.log" 2>&1 &
  pid=$!
  until=$((SECONDS + 25 * slower))
  while kill -0 $pid 2>/dev/null && [ $SECONDS -lt $until ] && [ "$lines" -lt $enough ]; do
    sleep 0.5
    used=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits 2>/dev/null | head -n 1)
    [ "${used:-0}" -gt "$most" ] && most=$used
    [ -e "$run/metrics.jsonl" ] && lines=$(wc -l <"$run/metrics.jsonl")
  done
  kill -KILL $pid 2>/dev/null # a checkpoint is not wanted
  wait $pid 2>/dev/null
  [ "$lines" -ge 7 ] || { tail -n 5 "$out/logs/$model-$length.log"; echo "$model, T=$length: only $lines lines of the log"; return 1; }
  # The median of the lines after five.
  numbers "$run/metrics.jsonl" | sed 1,5d | sort -g | awk -v model="$model" -v T="$length" -v rows="$rows" -v mib="$most" '
    {line[NR] = $0} END {
      split(line[int((NR + 1) / 2)], x)
      printf "measured: {\"what\": \"tessera\", \"model\": \"%s\", \"seq_length\": %d, \"batch\": %d, \"steps\": %d, ", model, T, rows, NR
      printf "\"tokens_per_second\": %s, \"model_flops_per_second\": %s, \"mfu\": %s, \"memory_gib\": %s}\n",
        x[1], x[2], x[3], (mib > 0 ? mib / 1024 : "null")
    }'
}
numbers() { # tokens/s, FLOP/s and MFU of each line
  awk '
    function value(key) {
      if (!match($0, "\"" key "\":[-0-9.e+]+")) return "null"
      return substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3)
    }
    /"loss"/ {print value("tokens_per_second"), value("model_flops_per_second"), value("mfu")}' "$1"
}
part_measure() {
  local status=0 model length rows
  while read -r model length rows; do
    if [ "$(seconds_left)" -lt 10 ]; then
      note "no time was left for $model, T=$length"
      continue
    fi
    measure "$model" "$length" "$rows" </dev/null || status=1
  done <<<"$measured"
  return $status
}
part_pytorch() {
  local python=${PYTHON:-python3} status=0 model length rows line
  "$python" -c 'import torch' 2>/dev/null || { note "$python has no torch (set PYTHON)"; return 77; }
  local options=(--seconds 12)
  [ $tiny = 1 ] && options=(--seconds 20 --steps 3 --warm-up 1 --device cpu --no-compile)
  while read -r model length rows; do
    if [ "$(seconds_left)" -lt 45 ]; then # to compile takes most of it
      note "no time was left for $model, T=$length"
      continue
    fi
    [ $tiny = 1 ] && model=tiny_${model%%[2_]*}
    line=$("$python" "$here/peer_pytorch.py" "$model" --seq-length "$length" --batch "$rows" "${options[@]}" </dev/null) ||
      { status=1; continue; }
    echo "measured: {\"what\": \"pytorch\", ${line#\{}"
  done <<<"$measured"
  return $status
}

# --- all parts ---------------------------------------------------------------------------------------------

# Words, some far more often than others: as text, for a vocabulary of the size that a model wants.
words() { # words VOCABULARY LINES
  awk -v n="$1" -v lines="$2" 'BEGIN {
    srand(1)
    for (i = 0; i < lines; ++i) {
      line = ""
      for (k = 0; k < 40; ++k) line = line " w" int((n - 5) * exp(3 * log(rand() + 1e-9)))
      print line
      if (i % 200 == 199) print ""
    }
  }'
}
part_data() {
  mkdir -p "$data"
  local name size lines
  while read -r name size lines; do
    { printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n'; seq 0 $((size - 6)) | sed 's/^/w/'; } >"$data/$name.txt"
    words "$size" "$lines" >"$data/$name.text"
    "$tessera" prepare --tokenizer "wordpiece:$data/$name.txt" --documents paragraph --input "$data/$name.text" \
      --output "$data/$name" --overwrite </dev/null || return 1
    rm "$data/$name.text"
  done <<<"1000 1000 3000
50257 50257 40000
30522 30522 40000"
}

if [ -n "$part" ]; then
  "part_$part"
  exit
fi

# part | seconds at most. By design all are done in 530 s: where all goes well, parts are thought to take, on
# an H200, versions 3, data 15, ops 40, models 25, communicators 10, gpt and bert 25 each, layouts 30, nccl 12,
# resume 25, bitwise 20, answers 12, kernels 15, which are 257 s; measure, 7 models of 15 s, 105; then 168 are
# left, which memcheck and racecheck, of 50 each, and pytorch share. These four stop by themselves when their
# time is up and say what they left out.
parts='versions 20
data 60
ops 90
models 60
communicators 30
gpt 40
bert 40
layouts 60
nccl 30
resume 40
bitwise 40
answers 40
kernels 40
measure 150
memcheck 50
racecheck 50
pytorch 240'
began=$SECONDS
rm -rf "$out/logs" "$out/runs"
mkdir -p "$out/logs"
: >"$out/parts.txt"
while read -r name limit; do
  if [ -n "$only" ] && [ "$name" != data ] && [[ "$only" != *" $name "* ]]; then continue; fi
  limit=$((limit * slower))
  left=$((530 * slower - (SECONDS - began)))
  [ $left -lt $limit ] && limit=$((left > 0 ? left : 0))
  log=$out/logs/$name.log
  start=$SECONDS
  if [ $limit -eq 0 ]; then
    echo 'note: no time was left' >"$log"
    status=77
  else
    options=()
    [ $tiny = 1 ] && options=(--tiny)
    PART_SECONDS=$limit timeout -k 5 "$limit" bash "$self" "${options[@]}" --out "$out" --part "$name" "$bin" >"$log" 2>&1 </dev/null
    status=$?
  fi
  case $status in
    0) outcome=passed ;;
    77) outcome=skipped ;;
    124 | 137) outcome='out of time' ;;
    *) outcome=FAILED ;;
  esac
  echo "$name|$outcome|$((SECONDS - start))" >>"$out/parts.txt"
  printf '%-14s %-12s %4d s\n' "$name" "$outcome" $((SECONDS - start))
  grep '^note: ' "$log"
  [ "$outcome" = FAILED ] && tail -n 12 "$log" | sed 's/^/    /'
done <<<"$parts"

# awk: the value of a key of a line of JSON.
# shellcheck disable=SC2016 # the dollar is awk's
value_of='
  function value(key,   text) {
    if (!match($0, "\"" key "\": *(\"[^\"]*\"|[^,}]*)")) return ""
    text = substr($0, RSTART, RLENGTH); sub(/^"[a-z_]*": */, "", text); gsub(/"/, "", text)
    return text
  }'

# --- results.json and results.md ------------------------------------------------------------------------
card=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1)
emulated && card='none: an emulated GPU' driver=none
when=$(date -u +%Y-%m-%dT%H:%MZ)
{
  printf '{"card": "%s", "driver": "%s", "date": "%s", "tiny": %s,\n "parts": [\n' "$card" "$driver" "$when" \
    "$([ $tiny = 1 ] && echo true || echo false)"
  awk -F'|' -v logs="$out/logs" '{
    notes = ""
    while ((getline line < (logs "/" $1 ".log")) > 0) {
      if (sub(/^note: /, "", line)) {gsub(/["\\]/, "\\\\&", line); notes = notes (notes == "" ? "" : ", ") "\"" line "\""}
    }
    printf "%s  {\"part\": \"%s\", \"outcome\": \"%s\", \"seconds\": %d, \"notes\": [%s]}", (NR > 1 ? ",\n" : ""), $1, $2, $3, notes
  }' "$out/parts.txt"
  printf '\n ],\n "measured": [\n'
  cat "$out"/logs/{measure,pytorch,kernels}.log 2>/dev/null | sed -n 's/^measured: /  /p' | sed '$!s/$/,/'
  printf ' ]}\n'
} >"$out/results.json"
{
  printf '# Tessera on %s\n\nDriver %s, %s.\n\n| part | outcome | seconds | |\n|---|---|---|---|\n' "${card:-no GPU}" "${driver:-none}" "$when"
  while IFS='|' read -r name outcome seconds; do
    printf '| %s | %s | %s | %s |\n' "$name" "$outcome" "$seconds" "$(sed -n 's/^note: //p' "$out/logs/$name.log" | paste -sd';' -)"
  done <"$out/parts.txt"
  printf '\n| | model | T | rows | tokens/s | TFLOP/s | MFU | GiB |\n|---|---|---|---|---|---|---|---|\n'
  cat "$out"/logs/measure.log "$out"/logs/pytorch.log 2>/dev/null | sed -n 's/^measured: //p' | awk "$value_of"'
    {
      mfu = value("mfu"); gib = value("memory_gib")
      printf "| %s | %s | %s | %s | %.0f | %.1f | %s | %s |\n", value("what"), value("model"), value("seq_length"), value("batch"),
        value("tokens_per_second"), value("model_flops_per_second") / 1e12,
        mfu == "null" ? "" : sprintf("%.1f%%", 100 * mfu), gib == "null" ? "" : sprintf("%.1f", gib)
    }'
  if emulated; then
    printf '\nTimes of kernels on an emulated GPU mean nothing: results.json has them.\n'
  else
    printf '\nKernels, by what they can not do with less of: bytes by the bandwidth of the memory, FLOPs by the peak\n'
    printf 'of the data sheet. What is bound by one of them comes close to 100 %% of it.\n'
    printf '\n| kernel | µs | GB/s | of the bandwidth | TFLOP/s | of the peak |\n|---|---|---|---|---|---|\n'
    sed -n 's/^measured: //p' "$out/logs/kernels.log" 2>/dev/null | awk "$value_of"'
      function share(key) {text = value(key); return text == "null" ? "" : sprintf("%.0f%%", 100 * text)}
      {
        time = value("microseconds")
        printf "| %s | %.1f | %.0f | %s | %s | %s |\n", value("kernel"), time, value("bytes") / time / 1e3, share("share_of_bandwidth"),
          (value("flops") > 0 ? sprintf("%.1f", value("flops") / time / 1e6) : ""), share("share_of_flops")
      }'
  fi
} >"$out/results.md"
echo "$((SECONDS - began)) s in all; $out/results.md"
! grep -qE 'FAILED|out of time' "$out/parts.txt"
