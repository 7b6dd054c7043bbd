/* What --help of each verb says below the options: prose that belongs to no
 * single one of them. */
#include "hooks/trainer/help.h"

/* Of every verb that has the option. */
#define EMULATION                                                              \
    "--emulate fp16 rounds what the forward pass of half precision keeps,\n"   \
    "to the nearest and from 65520 on to infinity: the sum of embeddings,\n"   \
    "the outputs of LayerNorm, q, k and v (before and after Pythia's\n"        \
    "rotation), q.k before it is scaled, the heads' outputs, the residual\n"   \
    "stream after every sub-block, what goes into and comes out of an FFN's\n" \
    "activation, a scaled FFN's output, and the logits of the loss.\n"         \
    "Products are summed in fp32; softmax, the loss, parameters, gradients\n"  \
    "and the optimiser stay fp32; a gradient passes a rounding unchanged.\n\n"

/* Of every verb that evaluates. */
#define INFERENCE                                                              \
    "--inference polynomial evaluates PSM models as homomorphic encryption\n"  \
    "would have them: no division, root or exponential. PowerSoftmax "         \
    "divides\n"                                                                \
    "by Goldschmidt, LayerNorm has Newton's inverse root, GELU's gate is a\n"  \
    "Chebyshev polynomial, and the row's largest score that the stable form\n" \
    "divides by is a constant. Intervals, iterations and degrees of each\n"    \
    "layer are chosen from exact passes over other held-out data. Nothing "    \
    "is\n"                                                                     \
    "clipped: what is outside is counted (clipped_attn, _act, _norm), and\n"   \
    "errors are recorded beside (approx_error_*), and the loss of exact\n"     \
    "inference (ce_exact). On the CPU, in fp32.\n\n"

const char es_train_details[] =
    "Progress shows the heads as a bar, from the lowest entropy to the\n"
    "highest: '_' below a quarter of the ceiling ln(T!)/T, '-' below half,\n"
    "'=' below three quarters, '#' above, '!' not finite.\n\n" EMULATION
        INFERENCE
    "A file RUN.db.stop beside the run file ends the training well.\n\n"
    "--preset NAME takes the options of a line of the papers' tables, at the\n"
    "published size or, as NAME-tiny, at one that two cores train in minutes.\n"
    "--config and other options override it wherever it is named, and so does\n"
    "a checkpoint that is resumed. The papers train on code (t128, t256: 2.1 "
    "B\n"
    "tokens, a vocabulary of 50k) and on books (t512: 4.8 B tokens, one of\n"
    "16,384; --steps 18265 for 2.4 B, 9132 for 1.2 B). Published sizes are "
    "for\n"
    "cuda, in fp16; on the CPU give --backend cpu --precision fp32.\n\n"
    "--dry-run prints the whole configuration, as --config reads it, and\n"
    "refuses what a training would: options that the back-end lacks, data,\n"
    "weights or a checkpoint that do not fit, places it cannot write to. What\n"
    "is not checked is said: data or a run file that are not given, a run "
    "file\n"
    "that is there, other ranks, --backend cuda where it does not start, as "
    "on\n"
    "a login node; but not memory, nor whether the recorder starts.\n\n"
    "--checkpoint DIR keeps the last checkpoints of the run there, as\n"
    "NAME-STEP.safetensors: every --checkpoint-every steps, at the end and\n"
    "at a stop, but none once a loss or a gradient is not finite. --resume\n"
    "goes on with one: its settings, and what the options beside it change,\n"
    "in the run file that --out names. What the model is cannot change, nor\n"
    "can the data. Under another --name it becomes a run of its own.\n\n"
    "--products onednn needs libdnnl.so.2 (Debian's libdnnl2), or the file\n"
    "that ENTROPY_TRAIN_ONEDNN names; auto takes it for shapes that it\n"
    "multiplies faster, where the processor has AVX-512. The same bits come\n"
    "from the same choice and the same number of threads.\n\n"
    "--backend cuda needs libentropytrain_cuda.so beside the program, or the\n"
    "file that ENTROPY_TRAIN_CUDA names, and a device. Parameters, optimiser,\n"
    "statistics and sums are fp32 or better in every --precision; the loss of\n"
    "fp16 is scaled: loss_scale is recorded, and a step that overflows is "
    "left\n"
    "out.\n\n"
    "--world N trains one model in N processes, the ranks 0 to N - 1, each\n"
    "with the same options and --rank R; started by mpirun -n N or srun -n N,\n"
    "--world 0 is enough. A step is that of one process with N times\n"
    "--accumulate: the same sequences, gradients and statistics added up in\n"
    "the order of the ranks; with --backend cuda, one device each, gradients\n"
    "by NCCL, if libnccl.so.2 is there. Rank 0 evaluates, records and writes\n"
    "checkpoints; all read those, and the data. Where one rank fails, is\n"
    "killed or does not come, all end with one message, and exit code 3.\n\n"
    "Exit codes: 0 all steps done, or stopped by such a file; 1 the loss was\n"
    "no longer finite; 2 usage; 3 an input or output failed; 128+N ended by\n"
    "signal N, the run closed as stopped. A checkpoint that is missing is a 3.";

const char es_verify_details[] =
    "Each CASE holds parameters, one micro-batch, and the expected logits,\n"
    "losses, entropies and gradients. It is a .safetensors file (metadata\n"
    "case: its settings as JSON) or a folder (case.json, an .npy file for\n"
    "each array, as in params/wte.npy). Prints a line for each case, and\n"
    "one for each array that is off: by more than 1e-4 of its norm in fp32,\n"
    "0.03 in tf32 and fp16, 0.25 in bf16, and a little more where that is 0.\n"
    "\n"
    "Exit codes: 0 all cases pass, 1 one does not or cannot be built yet,\n"
    "2 usage, 3 an input failed.";

const char es_bench_details[] =
    "Trains on random tokens and takes single steps by turns, with recording\n"
    "at every step and without measuring or recording. Prints tokens/s and\n"
    "the share of a step that recording takes: the median of the differences\n"
    "within pairs over the median of the steps without, and the interval that\n"
    "holds that median with 95 % confidence. On the CPU, also where the time\n"
    "of a plain step goes.";

const char es_probe_details[] =
    "Runs the held-out part of the data forward through a model that exists:\n"
    "a checkpoint of entropy-train, or weights of GPT-2, GPT-NeoX (Pythia),\n"
    "Llama, Qwen2, Qwen3, BERT, RoBERTa or ViT as Hugging Face's library\n"
    "saves them. Records loss, heads and layers as one evaluation, and prints\n"
    "loss, perplexity and each layer's entropy, with their standard deviation\n"
    "over the micro-batches; of images the accuracy, too. BERT and RoBERTa "
    "have\n"
    "no loss here; the ceiling of encoders is the mean of ln(visible keys),\n"
    "padding (at the end of sequences) left out.\n\n"
    "The token file has to be made with the model's own tokenizer:\n"
    "entropy-corpus --ids packs ids from elsewhere. What is not given is as\n"
    "the file of weights says, --ctx the longest it has positions for.\n"
    "\n" EMULATION INFERENCE
    "Exit codes: 0 fine, 1 the loss was not finite, 2 usage, 3 an input or\n"
    "output failed, 128+N ended by signal N.";
