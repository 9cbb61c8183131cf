# shellcheck shell=bash
# Sourced by check.sh: writes reports from the outcomes and logs of the parts.

# awk: returns the value of a key in a line of JSON.
# shellcheck disable=SC2016 # the dollar is awk's
value_of='
  function value(key,   text) {
    if (!match($0, "\"" key "\": *(\"[^\"]*\"|[^,}]*)")) return ""
    text = substr($0, RSTART, RLENGTH); sub(/^"[a-z_]*": */, "", text); gsub(/"/, "", text)
    return text
  }'

describe_machine() {
  card=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)
  driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1)
  emulated && card='none: an emulated GPU' driver=none
  when=$(date -u +%Y-%m-%dT%H:%MZ)
}

results_json() {
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
  cat "$out"/logs/{measure,scaling,pytorch,kernels,profile}.log 2>/dev/null | sed -n 's/^measured: /  /p' | sed '$!s/$/,/'
  printf ' ]}\n'
}

results_md() {
  printf '# Tessera on %s\n\nDriver %s, %s.\n\n| part | outcome | seconds | |\n|---|---|---|---|\n' "${card:-no GPU}" "${driver:-none}" "$when"
  while IFS='|' read -r name outcome seconds; do
    printf '| %s | %s | %s | %s |\n' "$name" "$outcome" "$seconds" "$(sed -n 's/^note: //p' "$out/logs/$name.log" | paste -sd';' -)"
  done <"$out/parts.txt"
  printf '\n| | model | T | rows | micro-batches | tokens/s | TFLOP/s | MFU | GiB a GPU |\n|---|---|---|---|---|---|---|---|---|\n'
  cat "$out"/logs/{measure,scaling,pytorch}.log 2>/dev/null | sed -n 's/^measured: //p' | awk "$value_of"'
    {
      mfu = value("mfu"); gib = value("memory_gib"); what = value("what")
      if (value("gpus") > 1) what = what sprintf(", %d GPUs: data %d × tensor %d", value("gpus"), value("gpus") / value("tensor"), value("tensor"))
      printf "| %s | %s | %s | %s | %d | %.0f | %.1f | %s | %s |\n", what, value("model"), value("seq_length"), value("batch"),
        (value("micro_batches") == "" ? 1 : value("micro_batches")), value("tokens_per_second"), value("model_flops_per_second") / 1e12,
        mfu == "null" ? "" : sprintf("%.1f%%", 100 * mfu), gib == "null" ? "" : sprintf("%.1f", gib)
    }'
  if emulated; then
    printf '\nTimes of kernels on an emulated GPU mean nothing: results.json has them.\n'
  else
    printf '\nKernels relative to the data sheet: bytes by the memory bandwidth, FLOPs by the peak. A kernel that one of\n'
    printf 'them limits comes close to 100 %% of it.\n'
    printf '\n| kernel | µs | GB/s | of the bandwidth | TFLOP/s | of the peak |\n|---|---|---|---|---|---|\n'
    sed -n '/"what": "fusion"/d; s/^measured: //p' "$out/logs/kernels.log" 2>/dev/null | awk "$value_of"'
      function share(key) {text = value(key); return text == "null" ? "" : sprintf("%.0f%%", 100 * text)}
      {
        time = value("microseconds")
        printf "| %s | %.1f | %.0f | %s | %s | %s |\n", value("kernel"), time, value("bytes") / time / 1e3, share("share_of_bandwidth"),
          (value("flops") > 0 ? sprintf("%.1f", value("flops") / time / 1e6) : ""), share("share_of_flops")
      }'
    profile_md
    printf '\nRows for core/ops/cuda/matmul/fusions.h:\n\n'
    sed -n 's/^fusion: /    /p' "$out/logs/kernels.log" 2>/dev/null
  fi
}

# Of each model, the kernels that take 1% of a step or more.
profile_md() {
  sed -n 's/^measured: //p' "$out/logs/profile.log" 2>/dev/null | awk "$value_of"'
    value("what") == "step" {
      printf "\nA step of %s takes %.2f ms, of which no kernel runs in %.2f ms:\n", value("model"), value("microseconds") / 1e3,
        value("idle_microseconds") / 1e3
      printf "\n| kernel | calls | ms | of the step |\n|---|--:|--:|--:|\n"
    }
    value("what") == "profile" && value("share") >= 0.01 {
      printf "| `%s` | %.0f | %.2f | %.1f%% |\n", value("kernel"), value("calls"), value("microseconds") / 1e3, 100 * value("share")
    }'
}
