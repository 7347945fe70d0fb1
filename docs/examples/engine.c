/*===- engine.c - the loop of an inference engine in C ------------*- C -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Continuous batching with one layer on the CPU: requests arrive with prompts of
// different lengths, every step runs what is there, and a request that has its
// tokens leaves. Hidden states are random, as if the other layers had made them.
// In the end each request's last output is computed once more, alone and in one
// prefill, and compared.
//
//   mla-compile LAYER.safetensors --dtype=f32 --target=cpu -o layer.mlac
//   engine layer.mlac LAYER.safetensors layers.0.self_attn/weights/
//
// Compile it with find_package(mlac) and mlac::runtime, or with
//
//   cc engine.c $(pkg-config --cflags --libs mlac) -lm
//
//===----------------------------------------------------------------------===*/

#include "mla_runtime.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kRequests = 3, kMaxTokens = 32 };

/* Prompt lengths, the step in which each request arrives, tokens that it wants. */
static const int32_t prompts[kRequests] = {5, 9, 3}, arrives[kRequests] = {0, 0, 2},
                     wanted[kRequests] = {4, 2, 3};

typedef struct Request {
  mla_sequence sequence;
  int32_t length; /* tokens in the cache */
  int running;
  float *hidden; /* [kMaxTokens, hidden_size]: inputs, prompt first */
  float *last;   /* [hidden_size]: output of the last token */
} Request;

/* Everything that is not expected ends the program with its message. */
static void must(mla_status status) {
  if (status == MLA_OK)
    return;
  fprintf(stderr, "%s: %s\n", mla_status_name(status), mla_last_error());
  exit(1);
}

static int64_t read_hidden_size(mla_package *package) {
  const char *json, *found;
  must(mla_package_info(package, &json));
  found = strstr(json, "\"hidden_size\":");
  return found ? strtoll(found + strlen("\"hidden_size\":"), NULL, 10) : 0;
}

static float *new_floats(int64_t count) {
  float *values = calloc((size_t)count, sizeof *values);
  if (values)
    return values;
  fprintf(stderr, "out of memory\n");
  exit(1);
}

static void fill_random(float *values, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    values[i] = (float)rand() / (float)RAND_MAX - 0.5f;
}

/* One step of a batch: plan once (for all layers), then run each layer. */
static void run_step(mla_plan *plan, const mla_sequence *sequences, const int32_t *query_lens,
                     int64_t requests, const float *hidden, float *output) {
  mla_batch batch = {sizeof batch, requests, sequences, query_lens, 0};
  must(mla_step_plan(plan, &batch, NULL, NULL));
  must(mla_step_run(plan, 0, hidden, output, NULL));
}

/* Runs whoever is there: a whole prompt for the new ones, one token for the others. */
static void step_all(mla_plan *plan, Request *requests, int64_t width, float *hidden,
                     float *output) {
  mla_sequence sequences[kRequests];
  int32_t query_lens[kRequests];
  int64_t count = 0, tokens = 0;
  Request *members[kRequests];
  for (int i = 0; i < kRequests; ++i) {
    Request *request = &requests[i];
    if (!request->running)
      continue;
    members[count] = request;
    sequences[count] = request->sequence;
    query_lens[count] = request->length == 0 ? prompts[i] : 1;
    memcpy(hidden + tokens * width, request->hidden + request->length * width,
           (size_t)(query_lens[count] * width) * sizeof *hidden);
    tokens += query_lens[count++];
  }
  run_step(plan, sequences, query_lens, count, hidden, output);
  tokens = 0;
  for (int64_t i = 0; i < count; ++i) {
    tokens += query_lens[i];
    members[i]->length += query_lens[i];
    memcpy(members[i]->last, output + (tokens - 1) * width, (size_t)width * sizeof *output);
  }
}

/* The largest difference between a request's last output and the same computed alone. */
static float compare(mla_engine *engine, mla_plan *plan, const Request *request, int64_t width,
                     float *output) {
  mla_sequence sequence;
  float worst = 0;
  must(mla_sequence_create(engine, &sequence));
  run_step(plan, &sequence, &request->length, 1, request->hidden, output);
  for (int64_t i = 0; i < width; ++i)
    worst = fmaxf(worst, fabsf(output[(request->length - 1) * width + i] - request->last[i]));
  must(mla_sequence_free(engine, sequence));
  return worst;
}

int main(int argc, char **argv) {
  mla_package *package;
  mla_device *device;
  mla_engine *engine;
  mla_plan *plan;
  mla_engine_options options;
  Request requests[kRequests] = {0};
  float worst = 0;
  if (argc != 4) {
    fprintf(stderr, "usage: %s PACKAGE WEIGHTS.safetensors PREFIX\n", argv[0]);
    return 2;
  }
  must(mla_package_open(argv[1], &package));
  must(mla_device_open("cpu", 0, &device));
  mla_engine_options_init(&options);
  options.max_num_requests = kRequests;
  options.max_seq_len = kMaxTokens;
  must(mla_engine_create(package, device, &options, &engine));
  must(mla_engine_bind_safetensors(engine, 0, argv[2], argv[3], MLA_ALLOW_EXTRA_TENSORS));
  must(mla_engine_prepare(engine, 0));
  must(mla_plan_create(engine, &plan));

  int64_t width = read_hidden_size(package);
  float *hidden = new_floats(kRequests * kMaxTokens * width);
  float *output = new_floats(kRequests * kMaxTokens * width);
  int left = kRequests;
  for (int step = 0; left > 0; ++step) {
    for (int i = 0; i < kRequests; ++i) {
      if (arrives[i] != step)
        continue;
      requests[i].running = 1;
      requests[i].hidden = new_floats(kMaxTokens * width);
      requests[i].last = new_floats(width);
      fill_random(requests[i].hidden, kMaxTokens * width);
      must(mla_sequence_create(engine, &requests[i].sequence));
    }
    step_all(plan, requests, width, hidden, output);
    for (int i = 0; i < kRequests; ++i) {
      if (!requests[i].running || requests[i].length - prompts[i] + 1 < wanted[i])
        continue;
      must(mla_sequence_free(engine, requests[i].sequence)); /* its pages are free again */
      requests[i].running = 0;
      --left;
      printf("step %d: request %d leaves with %d tokens\n", step, i, (int)requests[i].length);
    }
  }
  for (int i = 0; i < kRequests; ++i) {
    worst = fmaxf(worst, compare(engine, plan, &requests[i], width, output));
    free(requests[i].hidden);
    free(requests[i].last);
  }
  printf("worst difference from one prefill alone: %.1e\n", worst);
  free(hidden);
  free(output);
  must(mla_plan_destroy(plan));
  must(mla_engine_destroy(engine));
  must(mla_device_close(device));
  must(mla_package_close(package));
  return worst < 1e-5f ? 0 : 1;
}
