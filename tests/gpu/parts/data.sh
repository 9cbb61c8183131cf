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
