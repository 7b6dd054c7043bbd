#!/usr/bin/env bash
# Tests samples/aero/path.sh with tiny models: the table has a row for every step of
# AERO, each step starts from the weights of the previous step if the architecture allows
# this, and no model is trained twice.
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir

write_source "$dir/src" 90
mkdir "$dir/way"
"$BUILD/entropy-corpus" -q -o "$dir/way/python.tok" "$dir/src" || echo 'Bail out! no corpus'
way() {
    PATH=$bin:$PATH samples/aero/path.sh "$dir/way" 20 2 --d-model 8 --n-head 2 --ctx 16 --eval-batches 32 \
        --threads 1 >"$dir/table" 2>"$dir/err"
}
check 'the way is gone' way
models=$(sed -nE 's/^\| ([^ ]+) \|.*/\1/p' "$dir/table" | tail -n +3 | tr '\n' ' ')
same_text 'every step is in the table' \
    'SM+LN+G SM+LN+R SM+R SM+ScFFN SM+ScFuFFN SM+ScFuFFNi2 SM+ScFuFFNi4 SM+ScFuFFNi6 longer ' "$models"
for pair in 'SM\+LN\+R.*SM\+LN\+G, not SM\+LN\+R' 'SM\+R.*SM\+LN\+R, not SM\+R' 'SM\+ScFFN.*SM\+R, not SM\+ScFFN'; do
    output 'another function is named' "^${pair/.\*/ is another function.*}\$" cat "$dir/err"
done
cell() { awk -F ' *[|] *' -v name="$1" -v i="$2" '$2 == name { print $i }' "$dir/table"; }
same_text 'the fused model begins with the perplexity of the last one' "$(cell SM+ScFFN 5)" "$(cell SM+ScFuFFN 4)"
same_text 'a dropped FFN is named' 'fuse --drop 6-11' "$(cell SM+ScFuFFNi6 3)"
number='[0-9]+\.[0-9]+'
output 'all numbers are there' "^\| SM\+ScFuFFNi4 \| fuse --drop 8-11 \| $number \| $number \| $number \| $number \| $number \|$" \
    cat "$dir/table"
cheaper() { # FLOPs and communication fall from step to step
    awk -F ' *[|] *' '$2 ~ /^SM/ { bad += n++ && ($6 > ffn || $8 > gb); ffn = $6; gb = $8 } END { exit bad || n != 8 }' "$dir/table"
}
check 'no step costs more than the last one' cheaper
for figure in steps pareto; do
    check "the figure $figure is drawn" sh -c 'head -c 4 "$0" | grep -q PNG' "$dir/way/$figure.png"
done
panels() {
    PATH=$bin:$PATH entropy-scan cost "$dir"/way/SM*.db --figure perplexity+flops+communication -o "$dir/steps.svg" &&
        for text in "$(printf %.0f "$(cell SM+ScFuFFNi6 5)")" 'perplexity, eval' attention GELU; do
            grep -q ">$text<" "$dir/steps.svg" || { echo "# no $text" && return 1; }
        done
}
check 'the figure has the perplexities of the table' panels
again() {
    local before
    before=$(cat "$dir"/way/*.db | cksum)
    way && [ "$before" = "$(cat "$dir"/way/*.db | cksum)" ]
}
check 'existing models are not trained again' again
finish
