# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Points of the programs that time whole layers of selected keys: each point is a context and a batch, whose
contestants are checked, timed in turns and described in a line."""

import json
import sys

import compositions
import program
import scores

OWN = ("mlac", "mlac, two streams")
PEERS = (("torch", "torch, two streams"), ("torch whole", "torch whole, two streams"))


def build_scores(options):
    """The package of an indexer's scores alone, and the runtime beside it."""
    text = scores.POOL.format(**scores.SIZES) + \
        scores.STEP.format(name="decode", query=1, **scores.SIZES)
    compositions.compile_text(options, text, "scores")
    compositions.copy_runtime(options)


def check(outputs):
    """What is wrong with them, in words."""
    import torch

    problems = [f"{name} NOT FINITE" for name, output in outputs.items()
                if not bool(output.isfinite().all())]
    if not torch.equal(*(outputs[name].view(torch.int16) for name in OWN)):
        problems.append("OTHER BITS on two streams")
    return problems


def run_point(row, layers, make, kernels, options, describe):
    """Fills `row`, which says what the point is of. `make` gives torch's composition, whole where it is given
    kernels; `describe` the line's beginning and what it says of the times besides."""
    made = {"torch": make(None)}
    if kernels:
        made["torch whole"] = make(kernels)
    launches = {name: layer.launch for name, layer in layers.items()}
    launches |= compositions.launches_of(made, options.device)
    if score := getattr(made["torch"], "score", None):
        launches["scores"] = score
    for launch in launches.values():
        launch()
    row["wrong"] = check({name: one.output for name, one in (*layers.items(), *made.items())})
    if options.device == "cpu":
        print(row, flush=True)
    else:
        contestants, times = compositions.race(launches, options.rounds, options.sustain, OWN, PEERS)
        row["us"] = {name: one._asdict() for name, one in times.items()}
        begin, more = describe(times)
        print(f"{begin}: {compositions.describe_times(times)}  "
              f"{compositions.compare(times, OWN, PEERS)}{more} {' '.join(row['wrong'])}", flush=True)
        if options.profile:
            for name in [name for name in (*OWN, *PEERS[1]) if name in contestants]:
                compositions.profile(contestants[name])
    if kernels:
        compositions.restore_pages(*(layers[name] for name in OWN), made["torch whole"].touched)
    for layer in layers.values():
        layer.end()
    return row


def close(layers, index, options):
    """Before the next ones are made, whose pools need the memory."""
    if index:
        index.engine.close()
    for layer in layers.values():
        layer.plan.close()
        layer.engine.close()
    if options.device != "cpu":
        import torch

        torch.cuda.empty_cache()


def run(options, rows_of):
    """All points: `rows_of(context, device, kernels, peer)`, of which some may be wrong."""
    compositions.use_runtime(options)
    import mlac
    import vllm_ops

    device, rows = mlac.Device(options.device), []
    kernels, note = compositions.load_fused(options.device)
    peer = vllm_ops.load(vllm_ops.FLASHMLA, options.flashmla) if options.device != "cpu" else None
    print(f"{device.info['name']}; the composition has {note}, "
          f"{'FlashMLA' if peer else 'no attention'}", flush=True)
    for context in options.context:
        rows += rows_of(context, device, kernels, peer)
    if options.out:
        options.out.write_text(json.dumps({"device": device.info["name"], "rows": rows}, indent=1))
    wrong = sum(bool(row["wrong"]) for row in rows)
    print(f"FAIL: {wrong} rows" if wrong else "PASS")
    return int(bool(wrong))


def main(doc, build, run_all, add_options=lambda parser: None):
    parser = program.make_parser(doc)
    program.add_layer_options(parser)
    add_options(parser)
    options = parser.parse_args()
    sys.exit(build(options) if options.command == "build" else run_all(options))
