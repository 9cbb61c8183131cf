# shellcheck shell=bash
# Sourced by check.sh: trains small models and compares their losses and outputs.

# small KIND RUN STEPS [KEY=VALUE...]: trains a small model in $out/runs/RUN, on RANKS ranks.
small() {
  local kind=$1 run=$2 stop=$3 key settings=()
  shift 3
  for key in "$@"; do settings+=(--set "$key"); done
  local config=$out/runs/$run.yaml
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

# same_weights A B: compares the tensors of the newest checkpoints byte for byte.
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

# same A B STEPS TOLERANCE: compares the losses of two runs; TOLERANCE is relative.
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

# fp32: a sum in another order differs by about 2⁻²⁴ × √length, 1e-6. For gradients near zero, AdamW turns
# such differences into steps of up to lr = 1e-3 of a few weights, 50 times.
fp32=1e-4
# bf16: weights and activations are rounded to 2⁻⁹ = 2e-3. A loss is a mean over 512 tokens, so the rounding
# errors of one step mostly cancel, but those of the weights are fed back for 50 steps.
bf16=1e-2

losses_of() {
  local kind=$1 status=0
  small "$kind" "$kind-cpu" $steps run.device=cpu && small "$kind" "$kind-gpu" $steps run.device=cuda || return 1
  same "$kind-cpu" "$kind-gpu" $steps $fp32 || status=1
  small "$kind" "$kind-gpu-bf16" $steps run.device=cuda run.precision=bf16 || return 1
  same "$kind-cpu" "$kind-gpu-bf16" $steps $bf16 || status=1
  return $status
}
part_gpt() { losses_of gpt2; }
part_bert() { losses_of bert; }
few=$((steps * 2 / 5))
part_layouts() {
  local status=0 layout
  small gpt2 gpt-whole $few run.device=cuda || return 1
  for layout in tensor data; do
    RANKS=2 small gpt2 "gpt-$layout" $few run.device=cuda parallel.backend=mpi \
      parallel.tensor=$([ $layout = tensor ] && echo 2 || echo 1) || return 1
    same gpt-whole "gpt-$layout" $few $fp32 || status=1
  done
  return $status
}
# over_nccl N RUN STEPS [KEY=VALUE...]: trains a small GPT on N ranks with NCCL.
over_nccl() {
  local n=$1 run=$2 stop=$3
  shift 3
  RANKS=$n small gpt2 "$run" "$stop" run.device=cuda parallel.backend=nccl "$@" </dev/null
}
# Steps of N ranks: on a GPU that they share, each collective takes milliseconds.
steps_of() { if [ "$(gpus)" -ge "$1" ]; then echo $few; else echo $((few < 8 ? few : 8)); fi; }
# each_layout FUNCTION LAYOUT...: calls FUNCTION RANKS NAME STEPS [KEY=VALUE...] for each layout that can run; a layout
# is the ranks and the settings that differ. Returns 77 if none can.
each_layout() {
  local function=$1 layout n settings status=0 ran=0
  shift
  for layout in "$@"; do
    read -r n settings <<<"$layout"
    can_run "$n" || { note "no $n GPUs for $settings"; continue; }
    ran=1
    # shellcheck disable=SC2086 # words
    $function "$n" "$n-${settings//[^a-z0-9]/-}" "$(steps_of "$n")" $settings || status=1
  done
  [ $ran = 1 ] || return 77
  return $status
}
# With one rank, and several against it.
agrees_with_one() {
  local n=$1 run=nccl-$2 stop=$3
  shift 3
  over_nccl "$n" "$run" "$stop" "$@" && same gpt-one "$run" "$stop" $fp32
}
part_nccl() {
  local status=0
  small gpt2 gpt-one $few run.device=cuda && over_nccl 1 gpt-nccl $few || return 1
  same gpt-one gpt-nccl $few 0 || status=1
  each_layout agrees_with_one '2 parallel.tensor=2' '2 parallel.tensor=1' '2 parallel.tensor=2 parallel.sequence=true' \
    '2 parallel.zero=3' '4 parallel.tensor=2 parallel.zero=1 parallel.sequence=true' \
    '4 batch.micro=2 parallel.zero=3 parallel.shard=2'
  [ $? = 1 ] && status=1
  return $status
}
part_resume() {
  local status=0
  small gpt2 resume-cpu $steps run.device=cpu || return 1
  small gpt2 cpu-to-gpu $((steps / 2)) run.device=cpu && small gpt2 cpu-to-gpu $steps run.device=cuda checkpoint.resume=required || return 1
  same resume-cpu cpu-to-gpu $steps $fp32 || status=1
  small gpt2 gpu-to-cpu $((steps / 2)) run.device=cuda && small gpt2 gpu-to-cpu $steps run.device=cpu checkpoint.resume=required || return 1
  same resume-cpu gpu-to-cpu $steps $fp32 || status=1
  return $status
}
# One configuration produces the same bits each time, with and without CUDA graphs.
part_bitwise() {
  local status=0 bf16=(run.device=cuda run.precision=bf16 optimizer.stochastic_rounding=true)
  local dropout=(run.device=cuda model.dropout=0.1 model.attention_dropout=0.1)
  small gpt2 bits-a $few "${bf16[@]}" && small gpt2 bits-b $few "${bf16[@]}" || return 1
  same bits-a bits-b $few 0 && same_weights bits-a bits-b || status=1
  small gpt2 graph $few run.device=cuda && small gpt2 no-graph $few run.device=cuda train.cuda_graph=off || return 1
  same graph no-graph $few 0 && same_weights graph no-graph || status=1
  small gpt2 graph-dropout $few "${dropout[@]}" && small gpt2 no-graph-dropout $few "${dropout[@]}" train.cuda_graph=off || return 1
  same graph-dropout no-graph-dropout $few 0 && same_weights graph-dropout no-graph-dropout || status=1
  return $status
}

# Two identical runs on several ranks have the same bits, and so has a run without CUDA graphs. With two ranks, a sum
# has only one order; with four, NCCL must keep to one.
has_same_bits() {
  local n=$1 run=repeated-$2 stop=$3
  shift 3
  over_nccl "$n" "$run-a" "$stop" run.precision=bf16 "$@" &&
    over_nccl "$n" "$run-b" "$stop" run.precision=bf16 "$@" train.cuda_graph=off &&
    same "$run-a" "$run-b" "$stop" 0 && same_weights "$run-a" "$run-b"
}
part_repeated() {
  each_layout has_same_bits '2 parallel.zero=1' '4 parallel.tensor=2 parallel.zero=1 parallel.sequence=true' \
    '4 parallel.zero=1 batch.micro=2' '4 parallel.tensor=4' '2 parallel.zero=3'
}
# Many steps of tensor × data ranks with ZeRO and CUDA graphs: collectives of both groups are in flight at once, and
# the host runs ahead of the GPUs.
part_long() {
  local many=1000 log=$out/logs/long-run.txt
  can_run 4 || { note 'there are fewer than 4 GPUs'; return 77; }
  [ "$(gpus)" -ge 4 ] || many=60
  [ $tiny = 1 ] && many=40
  over_nccl 4 long $many run.precision=bf16 parallel.tensor=2 parallel.zero=1 parallel.sequence=true batch.micro=1 \
    train.steps=$many log.interval=$((many / 10)) >"$log" 2>&1 || { tail -n 12 "$log"; return 1; }
  if grep 'no CUDA graphs' "$log"; then return 1; fi
  losses long | awk -v steps=$many '
    NR == 1 {first = $2} {last = $2; step = $1}
    END {
      printf "note: %d steps, loss from %.3f to %.3f\n", step, first, last
      exit !(step == steps && last < first)
    }'
}

processes_of() { # processes_of RUN: those of its ranks
  "$tessera" status "$out/runs/$1" | sed -n 's/.*rank [0-9]* (host [^,]*, process \([0-9]*\)).*/\1/p'
}
# strike FAULT CODES SAYS [KEY=VALUE...]: trains two ranks without end, does FAULT to the second when there is a
# checkpoint, and expects that the run ends by itself with one of CODES and prints SAYS, and that it can be resumed.
strike() {
  local fault=$1 codes=$2 says=$3 run=fault-$1 log=$out/logs/fault-$1.txt pid code processes newest
  local until=$((SECONDS + 60 * slower))
  shift 3
  local settings=(train.steps=1000000 checkpoint.interval=10 run.hang_timeout=10 "$@")
  over_nccl 2 "$run" 1000000 "${settings[@]}" >"$log" 2>&1 &
  pid=$!
  until [ -n "$(find "$out/runs/$run/checkpoints" -maxdepth 1 -name 'step_*' 2>/dev/null)" ]; do
    if ! kill -0 $pid 2>/dev/null || [ $SECONDS -gt $until ]; then
      processes_of "$run" | xargs -r kill -KILL 2>/dev/null
      tail -n 12 "$log"
      echo "$fault: the run did not reach a checkpoint"
      return 1
    fi
    sleep 0.2
  done
  mapfile -t processes < <(processes_of "$run")
  case $fault in
    stopped) kill -STOP "${processes[1]}" ;;
    killed) kill -KILL "${processes[1]}" ;;
    cut)
      if ! "${PYTHON:-python3}" "$here/cut_connections.py" "${processes[@]}"; then
        kill -KILL "${processes[@]}"
        wait $pid
        note 'the connections of other processes cannot be cut here'
        return 0
      fi
      ;;
  esac
  local began=$SECONDS
  until=$((SECONDS + 60 * slower))
  while kill -0 $pid 2>/dev/null && [ $SECONDS -lt $until ]; do sleep 0.2; done
  if kill -0 $pid 2>/dev/null; then
    kill -KILL "${processes[@]}"
    echo "$fault: the run did not end"
    return 1
  fi
  wait $pid
  code=$?
  if [[ " $codes " != *" $code "* ]] || ! grep -q "$says" "$log"; then
    tail -n 20 "$log"
    echo "$fault: exit code $code, expected one of $codes and \"$says\""
    return 1
  fi
  newest=$(find "$out/runs/$run/checkpoints" -maxdepth 1 -name 'step_*' | sort | tail -n 1)
  over_nccl 2 "$run" $((10#${newest##*_} + 1)) "${settings[@]}" checkpoint.resume=required >>"$log" 2>&1 ||
    { tail -n 12 "$log"; echo "$fault: it cannot be resumed"; return 1; }
  note "$fault: exit code $code after $((SECONDS - began)) s, resumed"
}
# Without graphs, so many layers are more launches than a GPU's queue has room for: a rank that filled it would not
# notice that the other one has stopped.
part_faults() {
  local status=0
  can_run 2 || { note 'there is one GPU'; return 77; }
  strike stopped 75 'rank 1' parallel.tensor=2 train.cuda_graph=off log.interval=1000 model.num_layers=32 || status=1
  strike killed '1 137' 'signal 9\|rank 1' parallel.tensor=2 || status=1
  strike cut 1 'NCCL failed' parallel.tensor=2 || status=1
  return $status
}

# Greedy generation and the loss of an evaluation, on a GPU and on the CPU, from one checkpoint.
part_answers() {
  local status=0 device
  small gpt2 answers $few run.device=cpu || return 1
  for device in cpu cuda; do
    "$tessera" generate "$out/runs/answers" --prompt 'w1 w2 w3' --max-tokens 40 --temperature 0 \
      --device $device >"$out/generated-$device.txt" || return 1
    "$tessera" eval "$out/runs/answers" --data "$data/1000" --max-samples 64 --json --device $device \
      >"$out/evaluated-$device.json" || return 1
  done
  if cmp "$out/generated-cpu.txt" "$out/generated-cuda.txt"; then
    note "generate: $(wc -w <"$out/generated-cuda.txt") words are the CPU's"
  else
    status=1
  fi
  # As for fp32 above, without steps that would feed differences back.
  paste -d ' ' <(loss_of "$out/evaluated-cpu.json") <(loss_of "$out/evaluated-cuda.json") | awk '
    NF != 2 {print "eval printed no loss"; exit 1}
    {d = ($2 - $1) / $1; if (d < 0) d = -d; printf "note: eval: %.2g apart, 1e-5 allowed\n", d; exit !(d <= 1e-5)}' || status=1
  return $status
}
loss_of() { tr -d ' \n' <"$1" | sed -n 's/.*"loss":\([-0-9.e+]*\).*/\1/p'; }
