# shellcheck shell=bash
# Sourced by check.sh: times kernels and steps of models, and compares them with PyTorch.

part_kernels() {
  local options=()
  [ $tiny = 1 ] && options=(--tiny)
  # Logs cuBLASLt's errors and hints: products without an epilogue, for which our own kernels run.
  CUBLASLT_LOG_MASK=5 CUBLASLT_LOG_FILE="$out/logs/cublaslt.txt" "$(program kernel_times)" "${options[@]}"
}

# model | T | rows of a micro-batch, "shipped" for those of its configuration | micro-batches per step | a setting. Both
# kinds come first, in case time runs out.
measured='gpt2_124m 1024 shipped 1
bert_base 128 256 1
gpt2_1.5b 1024 shipped 1
bert_large 512 shipped 1
bert_large 512 shipped 1 train.cudnn_dropout=true
gpt2_350m 1024 shipped 1
gpt2_124m 1024 shipped 8
gpt2_350m 1024 shipped 8
gpt2_1.5b 1024 shipped 8
gpt2_124m 1024 shipped 8 run.deterministic=false
gpt2_350m 1024 shipped 8 run.deterministic=false
gpt2_1.5b 1024 shipped 8 run.deterministic=false
bert_base 512 shipped 1
bert_large 128 128 1'
[ $tiny = 1 ] && measured='gpt2_124m 64 4 1
gpt2_124m 64 4 2
bert_base 64 4 1
bert_base 64 4 1 train.cudnn_dropout=true'

rows_of() { # rows_of MODEL ROWS
  if [ "$2" = shipped ]; then sed -n 's/^ *micro: *\([0-9]*\).*/\1/p' "$root/configs/$1.yaml"; else echo "$2"; fi
}

# train_for MODEL T ROWS MICRO_BATCHES GPUS TENSOR NAME [OPTION...]: trains in $out/runs/NAME, without regular
# checkpoints. The program replaces the shell, so that a signal reaches it: call this in a subshell.
train_for() {
  local model=$1 length=$2 rows=$3 micro_batches=$4 n=$5 tensor=$6 name=$7 settings=() key vocabulary=50257
  shift 7
  [[ $model = bert* ]] && vocabulary=30522 && settings+=(--set model.next_sentence=false --set model.token_types=2)
  if [ $tiny = 1 ]; then
    vocabulary=1000
    settings+=(--set model.vocab_size=1000 --set model.num_layers=2 --set model.hidden_size=64 --set model.num_heads=4)
  fi
  for key in run.dir="$out/runs/$name" run.device=cuda model.seq_length="$length" data.train="$data/$vocabulary" \
    data.eval_fraction=0 eval.interval=0 data.tokenizer="wordpiece:$data/$vocabulary.txt" \
    batch.global=$((rows * micro_batches * n / tensor)) batch.micro="$rows" parallel.tensor="$tensor" train.steps=100000 \
    checkpoint.interval=0; do
    settings+=(--set "$key")
  done
  start_ranks "$n"
  exec "${launcher[@]}" "$tessera" train "$root/configs/$model.yaml" "${settings[@]}" "$@"
}

# measure MODEL T ROWS MICRO_BATCHES [GPUS [TENSOR [SETTING]]]: runs until it has enough steps or the time is up.
measure() {
  local model=$1 length=$2 rows=$3 micro_batches=$4 n=${5:-1} tensor=${6:-1} setting=${7:-} lines=0 until pid used most=0
  local enough=24 name every=3 # asking each step would make each wait
  [ "$micro_batches" -gt 1 ] && every=1 enough=12
  name=$model-$length-$micro_batches-$n-$tensor${setting:+-${setting%=*}}
  local run=$out/runs/$name log=$out/logs/$name.log
  rm -rf "$run"
  [ $tiny = 1 ] && enough=8 every=1
  train_for "$model" "$length" "$rows" "$micro_batches" "$n" "$tensor" "$name" --set log.interval=$every ${setting:+--set "$setting"} >"$log" 2>&1 &
  pid=$!
  until=$((SECONDS + 25 * slower))
  while kill -0 $pid 2>/dev/null && [ $SECONDS -lt $until ] && [ "$lines" -lt $enough ]; do
    sleep 0.5
    used=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits 2>/dev/null | head -n 1)
    [ "${used:-0}" -gt "$most" ] && most=$used
    [ -e "$run/metrics.jsonl" ] && lines=$(wc -l <"$run/metrics.jsonl")
  done
  # No checkpoint is needed. On SIGTERM, mpirun kills its ranks.
  kill "-$([ "$n" = 1 ] && echo KILL || echo TERM)" $pid 2>/dev/null
  wait $pid 2>/dev/null
  local without=
  grep -q 'this build has no cuDNN' "$log" && without=', without cuDNN'
  if [ "$lines" -lt 7 ]; then
    [ -n "$without" ] && [ -n "$setting" ] && note "$name: not$without" && return
    tail -n 5 "$log"
    echo "$name: only $lines lines of the log"
    return 1
  fi
  # The median, without the first five lines.
  numbers "$run/metrics.jsonl" | sed 1,5d | sort -g |
    awk -v model="$model" -v T="$length" -v rows="$rows" -v mib="$most" -v gpus="$n" -v tensor="$tensor" \
      -v micro_batches="$micro_batches" \
      -v what="tessera${setting:+, $setting}${NCCL_MAX_CTAS:+, NCCL_MAX_CTAS=$NCCL_MAX_CTAS}$without" '
    {line[NR] = $0} END {
      split(line[int((NR + 1) / 2)], x)
      printf "measured: {\"what\": \"%s\", \"model\": \"%s\", \"seq_length\": %d, \"batch\": %d, ", what, model, T, rows
      printf "\"micro_batches\": %d, \"gpus\": %d, \"tensor\": %d, \"steps\": %d, ", micro_batches, gpus, tensor, NR
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
  local status=0 model length rows micro_batches setting
  while read -r model length rows micro_batches setting; do
    if [ "$(seconds_left)" -lt 10 ]; then
      note "no time was left for $model, T=$length $setting"
      continue
    fi
    measure "$model" "$length" "$(rows_of "$model" "$rows")" "$micro_batches" 1 1 "$setting" </dev/null || status=1
  done <<<"$measured"
  return $status
}
# The time of each kernel in a step, with the shipped settings.
part_profile() {
  emulated && note 'a profile is for a real GPU' && return 77
  local library=$bin/../libexec/libkernel_profile.so status=0 model length log
  [ -e "$library" ] || library=$bin/tests/libkernel_profile.so
  [ -e "$library" ] || { note 'this build has no CUPTI'; return 77; }
  while read -r model length; do
    [ "$(seconds_left)" -ge 12 ] || { note "no time was left for $model"; continue; }
    log=$out/logs/profile-$model.txt
    (
      export CUDA_INJECTION64_PATH=$library KERNEL_PROFILE=$log
      train_for "$model" "$length" "$(rows_of "$model" shipped)" 1 1 1 "profile-$model" --stop-at 16
    ) >"$out/logs/profile-$model.log" 2>&1 </dev/null || { tail -n 5 "$out/logs/profile-$model.log"; status=1; continue; }
    sed -n "s/^measured: {/measured: {\"model\": \"$model\", /p" "$log"
  done <<<'gpt2_124m 1024
bert_base 512
gpt2_350m 1024'
  return $status
}
# One model on an increasing number of GPUs, and on all of them with few blocks of NCCL's kernels; the batch grows with
# the data ranks.
part_scaling() {
  [ "$(gpus)" -ge 2 ] || { note 'there is one GPU'; return 77; }
  local status=0 model=gpt2_350m length=1024 rows n tensor
  rows=$(rows_of $model shipped)
  [ $tiny = 1 ] && model=gpt2_124m length=64 rows=4
  while read -r n tensor; do
    [ "$(gpus)" -ge "$n" ] || continue
    if [ "$(seconds_left)" -lt 20 ]; then
      note "no time was left for $n GPUs, parallel.tensor=$tensor"
      continue
    fi
    measure $model $length $rows 1 "$n" "$tensor" </dev/null || status=1
  done <<<"1 1
2 1
4 1
8 1
2 2
4 2
8 2"
  # A reduction's blocks take multiprocessors from the products that it runs beside.
  n=$(($(gpus) < 8 ? $(gpus) : 8))
  for NCCL_MAX_CTAS in 4 8 16; do
    export NCCL_MAX_CTAS
    if [ "$(seconds_left)" -lt 20 ]; then
      note "no time was left for NCCL_MAX_CTAS=$NCCL_MAX_CTAS"
      continue
    fi
    measure $model $length $rows 1 "$n" 1 </dev/null || status=1
  done
  return $status
}
peer() { "$python" "$here/peer_pytorch.py" "$model" --seq-length "$length" --batch "$1" "${options[@]}" </dev/null; }
part_pytorch() {
  local python=${PYTHON:-python3} status=0 model length rows micro_batches setting line
  "$python" -c 'import torch' 2>/dev/null || { note "$python has no torch (set PYTHON)"; return 77; }
  local options=(--seconds 6 --compile blocks)
  [ $tiny = 1 ] && options=(--seconds 20 --steps 3 --warm-up 1 --device cpu --compile none)
  while read -r model length rows micro_batches setting; do
    [ -n "$setting" ] || [ "$micro_batches" -gt 1 ] && continue
    rows=$(rows_of "$model" "$rows")
    if [ "$(seconds_left)" -lt 30 ]; then # to compile takes most of it
      note "no time was left for $model, T=$length"
      continue
    fi
    [ $tiny = 1 ] && model=tiny_${model%%[2_]*}
    # PyTorch keeps whole logits, so the largest models may fit only with half of the rows.
    line=$(peer "$rows") || line=$(peer $((rows / 2))) || { status=1; continue; }
    echo "measured: {\"what\": \"pytorch\", ${line#\{}"
  done <<<"$measured"
  return $status
}
