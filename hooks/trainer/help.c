/* Defines the explanations below the list of options in the --help text of each
 * verb. Each explanation concerns more than one option. */
#include "hooks/trainer/help.h"

/* Paragraph in the help of every verb with --emulate. */
#define EMULATION                                                              \
    "--emulate fp16 rounds to half precision what an fp16 forward pass\n"      \
    "stores (to the nearest, and to infinity from 65520 on): the sum of\n"     \
    "embeddings, the outputs of LayerNorm, q, k and v (before and after\n"     \
    "Pythia's rotation), q.k before scaling, the heads' outputs, the\n"        \
    "residual stream after every sub-block, the input and output of an\n"      \
    "FFN's activation, the output of a scaled FFN, and the logits of the\n"    \
    "loss. Products are summed in fp32; softmax, the loss, parameters,\n"      \
    "gradients and the optimiser stay in fp32; a gradient passes through a\n"  \
    "rounding unchanged.\n\n"

/* Paragraph in the help of every verb that evaluates. */
#define INFERENCE                                                              \
    "--inference polynomial evaluates PSM models as homomorphic encryption\n"  \
    "requires: without division, roots or exponentials. PowerSoftmax\n"        \
    "divides by Goldschmidt's method, LayerNorm takes its inverse root by\n"   \
    "Newton's, GELU's gate is a Chebyshev polynomial, and the stable form\n"   \
    "divides by a constant instead of the row's largest score. Each layer's\n" \
    "intervals, iterations and degrees are chosen from exact passes over\n"    \
    "other held-out data. Nothing is clipped: inputs outside an interval\n"    \
    "are counted (clipped_attn, _act, _norm). The errors (approx_error_*)\n"   \
    "and the loss of exact inference (ce_exact) are recorded as well. Runs\n"  \
    "on the CPU, in fp32.\n\n"

const char es_train_details[] =
    "Progress shows the heads as a bar, from the lowest entropy to the\n"
    "highest: '_' below a quarter of the ceiling ln(T!)/T, '-' below half,\n"
    "'=' below three quarters, '#' above, '!' not finite.\n"
    "\n" EMULATION INFERENCE
    "A file RUN.db.stop next to the run file stops the training cleanly.\n"
    "\n"
    "--preset NAME sets the options of one line of the papers' tables, at\n"
    "the published size or, as NAME-tiny, at a size that two cores train in\n"
    "minutes. In any order, other options and --config override it, as does\n"
    "a resumed checkpoint. The papers train on code (t128, t256: 2.1 B\n"
    "tokens, a vocabulary of 50k) and on books (gpt2 t512: 4.8 B, 16,384;\n"
    "--steps 18265 for 2.4 B, 9132 for 1.2 B). GPT-2 and Pythia of this\n"
    "size are for cuda, in fp16; on the CPU: --backend cpu --precision fp32.\n"
    "\n"
    "--dry-run prints the configuration as --config reads it, and fails\n"
    "where training would fail: at an option that the back-end does not\n"
    "support; at data, weights or a checkpoint that do not fit; at an output\n"
    "that cannot be written. It lists what it has not checked: an existing\n"
    "run file, other ranks, data or a run file that are not given, and\n"
    "--backend cuda without a device. It does not check memory or the\n"
    "recorder.\n"
    "\n"
    "--checkpoint DIR keeps the run's last checkpoints in DIR, as\n"
    "NAME-STEP.safetensors: every --checkpoint-every steps, at the end and\n"
    "at a stop, but not after a loss or a gradient that is not finite.\n"
    "--resume continues from a checkpoint, with its settings as changed by\n"
    "other options, in the run file that --out names. The model and the data\n"
    "cannot change. With another --name, the training becomes a new run.\n"
    "\n"
    "--products onednn needs libdnnl.so.2 (Debian's libdnnl2), or the file\n"
    "that ENTROPY_TRAIN_ONEDNN names; auto uses it for shapes where it is\n"
    "faster, on processors with AVX-512. The same choice and the same number\n"
    "of threads give the same bits.\n"
    "\n"
    "--backend cuda needs a device and libentropytrain_cuda.so in the\n"
    "program's folder, or the file that ENTROPY_TRAIN_CUDA names.\n"
    "Parameters, optimiser, statistics and sums are fp32 or better in every\n"
    "--precision. fp16 scales the loss: loss_scale is recorded, and a step\n"
    "that overflows is skipped.\n"
    "\n"
    "--world N trains one model in N processes, the ranks 0 to N - 1, each\n"
    "with the same options and its own --rank R; under mpirun -n N or\n"
    "srun -n N, --world 0 is enough. A step equals that of one process with\n"
    "N times --accumulate: the same sequences, with gradients and statistics\n"
    "summed in rank order. With --backend cuda each rank uses one device,\n"
    "and NCCL, if installed, sums the gradients. Rank 0 evaluates, records\n"
    "and writes checkpoints; all ranks read checkpoints and data. If a rank\n"
    "fails, is killed or does not arrive, all end with one message and exit\n"
    "code 3.\n"
    "\n"
    "Exit codes: 0 all steps done, or stopped by RUN.db.stop; 1 the loss was\n"
    "no longer finite; 2 usage; 3 an input or output failed, or a checkpoint\n"
    "is missing; 128+N ended by signal N (the run is closed as stopped).";

const char es_verify_details[] =
    "Each CASE holds parameters, one micro-batch, and the expected logits,\n"
    "losses, entropies and gradients. It is a .safetensors file (its\n"
    "settings are JSON in the metadata entry case) or a folder (case.json,\n"
    "and an .npy file for each array, as in params/wte.npy). Prints a line\n"
    "for each case, and one for each array whose error exceeds 1e-4 of its\n"
    "norm in fp32, 0.03 in tf32 and fp16, 0.25 in bf16, plus a little for\n"
    "each entry.\n"
    "\n"
    "Exit codes: 0 all cases pass, 1 a case fails or cannot be built yet,\n"
    "2 usage, 3 an input failed.";

const char es_bench_details[] =
    "Trains on random tokens and alternates single steps that record with\n"
    "steps that neither measure nor record. Prints tokens/s and the share of\n"
    "a step that recording takes: the median difference within pairs over\n"
    "the median step without recording, and the interval that contains that\n"
    "median with 95 % confidence. On the CPU, also prints where the time of\n"
    "a plain step goes.";

const char es_probe_details[] =
    "Runs the held-out part of the data forward through an existing model: a\n"
    "checkpoint of entropy-train, or weights of GPT-2, GPT-NeoX (Pythia),\n"
    "Llama, Qwen2, Qwen3, BERT, RoBERTa or ViT as Hugging Face's library\n"
    "saves them. Records loss, heads and layers as one evaluation, and\n"
    "prints loss, perplexity, accuracy (the share of next tokens, masked\n"
    "tokens or images predicted correctly) and each layer's entropy, with\n"
    "standard deviations over the micro-batches. BERT has no loss here;\n"
    "RoBERTa has the loss of masked tokens if --mask-token is given. The\n"
    "ceiling of encoders is the mean of ln(visible keys), without padding\n"
    "(at the end of sequences).\n"
    "\n"
    "The token file must be made with the model's own tokenizer:\n"
    "entropy-corpus --ids packs ids made elsewhere. Settings that are not\n"
    "given come from the file of weights; --ctx is then the longest context\n"
    "that the model has positions for.\n"
    "\n" EMULATION INFERENCE
    "Exit codes: 0 success, 1 the loss was not finite, 2 usage, 3 an input\n"
    "or output failed, 128+N ended by signal N.";

const char es_fuse_details[] =
    "Simplifies a trained model as AERO does (arXiv 2410.13060) and writes it\n"
    "to OUT, which --init accepts and which must not exist yet. IN is a\n"
    "checkpoint, a folder of checkpoints, or weights that --init accepts.\n"
    "\n"
    "WNorm and SNorm become plain matrices, with the values of an\n"
    "evaluation. The two matrices of a linear FFN, as in SM and SM+ScFFN,\n"
    "become their product: the model becomes SM+ScFuFFN, and biases of the\n"
    "FFN move to the attention's output or to LN. Products are computed in\n"
    "double. --drop 8-11 removes the FFNs of these layers, and ScFuFFN\n"
    "becomes ScFuFFNi4 (ScFuFFNe4 for the first layers); --drop 1,3-4 adds\n"
    "NoFFN[1]+NoFFN[3-4]. The layers' alpha and beta are removed with them.\n"
    "Works for gpt2, pythia and sas.\n"
    "\n"
    "Both models run the same held-out data in fp32; their loss, perplexity\n"
    "and mean entropies are printed. Without --drop they are the same\n"
    "function: OUT is written only if the loss (relative to max(1, loss))\n"
    "and every head's entropy agree to 1e-4. With --drop the model is\n"
    "another function, so it should be trained further:\n"
    "\n"
    "  entropy-train fuse saved fused.safetensors --data code.tok\n"
    "  entropy-train --init fused.safetensors --data code.tok -o run.db\n"
    "\n"
    "Exit codes: 0 OUT is written, 1 the results differ or are not finite,\n"
    "2 usage, 3 an input or output failed, 128+N ended by signal N.";
