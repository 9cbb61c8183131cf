# shellcheck shell=bash
# Sourced by check.sh: training data.

# Text of words with very different frequencies, for a vocabulary of the size that a model needs.
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
dataset() { # dataset NAME SIZE LINES
  { printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n'; seq 0 $(($2 - 6)) | sed 's/^/w/'; } >"$data/$1.txt"
  words "$2" "$3" >"$data/$1.text"
  "$tessera" prepare --tokenizer "wordpiece:$data/$1.txt" --documents paragraph --input "$data/$1.text" \
    --output "$data/$1" --overwrite </dev/null || return 1
  rm "$data/$1.text"
}
part_data() {
  local status=0 pids=() pid
  mkdir -p "$data"
  dataset 1000 1000 3000 & pids+=($!)
  dataset 50257 50257 40000 & pids+=($!)
  dataset 30522 30522 40000 & pids+=($!)
  for pid in "${pids[@]}"; do wait "$pid" || status=1; done
  return $status
}
