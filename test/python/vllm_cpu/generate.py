# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One vLLM engine in a process of its own: reads a job (JSON) from argv[1], prints a result."""

import json
import os
import sys

os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", HF_HUB_OFFLINE="1",
                  VLLM_NO_USAGE_STATS="1", VLLM_LOGGING_LEVEL="WARNING")


def main(job):
    from mlac.vllm import _kernels, _whole
    from vllm import LLM, SamplingParams
    from vllm.model_executor.models import glm4_moe
    import vllm_cpu.indexer  # noqa: F401  what sparse models need

    # Experts need kernels of a GPU; without them vLLM takes no model of this kind.
    glm4_moe.Glm4MixtureOfExperts.extract_moe_parameters = lambda *_: None
    runs = {}

    def count(kind, name, label):
        run, runs[label] = getattr(kind, name), []

        def counted(self, plan, layer_name, query, *args, **kwargs):
            runs[label].append(len(query))
            return run(self, plan, layer_name, query, *args, **kwargs)

        setattr(kind, name, counted)

    count(_kernels.Kernels, "run", "run")
    count(_kernels.Kernels, "run_prefill", "run_prefill")
    count(_whole.Layers, "run", "run_layer")
    options = {"enforce_eager": True, "compilation_config": {"custom_ops": ["none"], "mode": 0},
               **job["options"]}
    llm = LLM(model=job["model"], skip_tokenizer_init=True, dtype="float32", seed=0,
              attention_config={"backend": "CUSTOM", "mla_prefill_backend": "CUSTOM"}, **options)
    sampling = SamplingParams(temperature=0, max_tokens=job["tokens"], ignore_eos=True,
                              detokenize=False)
    outputs = []
    for prompts in job["rounds"]:
        done = llm.generate([{"prompt_token_ids": prompt} for prompt in prompts], sampling,
                            use_tqdm=False)
        outputs.append([list(each.outputs[0].token_ids) for each in done])
    print("RESULT " + json.dumps({"tokens": outputs, **runs}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
