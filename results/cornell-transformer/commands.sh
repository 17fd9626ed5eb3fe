#!/usr/bin/env bash
# What results/cornell-transformer/ comes from: a small Transformer, one encoder and two decoders, beside the GRU of
# results/cornell/. DATA is Cornell prepared with --keep-text, VECTORS the file that results/cornell/ was made with.
#   bidibeam prepare cornell --source FILES --keep-text --out DATA
#   results/cornell-transformer/commands.sh DATA VECTORS OUT
set -euo pipefail
data=$1 vectors=$2 out=$3
base=${BASE:-$(dirname "$0")/config.json} # for a trial: another one, fewer EPOCHS, SIZES, or JOBS at once
model=$out/model
mkdir -p "$out"

[ -e "$model/config.json" ] || bidibeam train "$data" --base "$base" --direction both --out "$model" --epochs "${EPOCHS:-8}" --batch-size 768 \
  --learning-rate 5e-4 --set warmup=0.1 --set max_source_length=51 --set max_response_length=21

alone=(vbs vbs-tuned bidis "bidia bleu_t tuned" longest reverse-vbs random oracle)
by_words=("bidia bleu_t" "bidia bleu_t either" "bidia bleu_t expected")
by_vectors=("bidia wmd_t" "bidia wmd_t tuned")
systems=()
for size in ${SIZES:-50}; do
  bidibeam tune --regular "$model" --data "$data" --beam-size $size --max-length 20 --batch-size 128 --vectors "$vectors" \
    --tokenize words --strategy vbs-tuned --strategy bidis --strategy "bidia bleu_t" --strategy "bidia wmd_t"
  decode() { # systems by stdin, further options
    xargs -0 -P "${JOBS:-4}" -I NAME bidibeam decode --regular "$model" "$data/test.jsonl" --beam-size $size \
      --max-length 20 --batch-size 128 --strategy NAME --n-best "$out/NAME $size.jsonl" "$@" >/dev/null
  }
  printf '%s\0' "${alone[@]}" | decode
  printf '%s\0' "${by_words[@]}" | decode --similarity-option max_length=20 # the paper's T
  printf '%s\0' "${by_vectors[0]}" | decode --vectors "$vectors" --similarity-option max_length=20
  printf '%s\0' "${by_vectors[1]}" | decode --vectors "$vectors"
  mv "$model/tuned.json" "$out/tuned-$size.json"
  for name in "${alone[@]}" "${by_words[@]}" "${by_vectors[@]}"; do systems+=("$name $size=$out/$name $size.jsonl"); done
done

bidibeam evaluate "${systems[@]}" --baseline "vbs-tuned 50" --baseline "vbs 50" --tokenize words --out "$out/results.json"
cp "$model/bidibeam.json" "$out/training.json"
