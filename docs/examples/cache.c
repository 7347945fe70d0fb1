/*===- cache.c - the paged cache from C, in one page --------------*- C -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The program of docs/runtime.md: two requests with a common prompt, a fork, a
// full pool, a snapshot. The rows are integers in an array here; with kernels of
// one's own they lie on a GPU. Compile it with
//
//   cc cache.c -I<prefix>/include -L<prefix>/lib -lmla_runtime
//
//===----------------------------------------------------------------------===*/

#include "mla_runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kPages = 6, kRows = 4, kMaxSeqLen = 64 };

/* The bytes of the cache: one row is the token that it was computed from. */
static int32_t rows[kPages * kRows];

/* Everything that is not expected ends the program with its message. */
static void must(mla_status status) {
  if (status == MLA_OK)
    return;
  fprintf(stderr, "%s: %s\n", mla_status_name(status), mla_last_error());
  exit(1);
}

/* Copy-on-write: made before anything is written, in the order given. */
static void copy_pages(mla_cache *cache) {
  mla_page_copy copies[kPages];
  int64_t count, i;
  must(mla_cache_take_copies(cache, copies, kPages, &count));
  for (i = 0; i < count; ++i)
    memcpy(&rows[copies[i].to * kRows], &rows[copies[i].from * kRows], kRows * sizeof rows[0]);
}

/* One step: takes pages, makes copies, then "runs the kernel". */
static mla_status append(mla_cache *cache, mla_sequence sequence, const int32_t *tokens,
                         int32_t count) {
  int64_t position, slots[kMaxSeqLen];
  int32_t i;
  mla_cache_append_batch batch = {sizeof batch, 1, &sequence, &position, &count};
  mla_status status;
  must(mla_cache_length(cache, sequence, &position));
  status = mla_cache_append(cache, &batch, slots, kMaxSeqLen);
  if (status != MLA_OK)
    return status; /* nothing has changed */
  copy_pages(cache);
  for (i = 0; i < count; ++i)
    rows[slots[i]] = tokens[i];
  return MLA_OK;
}

/* What attention would read. */
static void print(mla_cache *cache, const char *name, mla_sequence sequence) {
  int64_t length, slots[kMaxSeqLen], i;
  must(mla_cache_length(cache, sequence, &length));
  must(mla_cache_slots(cache, 0, sequence, 0, length, slots));
  printf("%s:", name);
  for (i = 0; i < length; ++i)
    printf(" %d", rows[slots[i]]);
  printf("\n");
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "cache.snapshot";
  const mla_cache_pool pool = {"latent", kPages, kRows, 1, 0, 0};
  const int32_t prompt[] = {11, 12, 13, 14, 15, 16, 17, 18, 19}, next[] = {20, 30};
  mla_cache_options options;
  mla_cache *cache, *other;
  mla_sequence first, second, fork, restored[2];
  mla_cache_counters counters;
  int64_t matched, count;

  mla_cache_options_init(&options);
  options.max_seq_len = kMaxSeqLen;
  options.num_pools = 1;
  options.pools = &pool;
  options.format = "one i32 a token";
  must(mla_cache_create(&options, &cache));

  /* The first request computes the prompt and publishes what it computed. */
  must(mla_cache_new_sequence(cache, &first));
  must(append(cache, first, prompt, 9));
  must(mla_cache_publish(cache, first, 0, prompt, 9, NULL));

  /* The second one finds two full pages; the ninth token is left to compute. */
  must(mla_cache_new_sequence(cache, &second));
  must(mla_cache_match(cache, second, prompt, 9, &matched));
  printf("the second request starts at token %d\n", (int)matched);
  must(append(cache, second, prompt + matched, (int32_t)(9 - matched)));

  /* A fork shares the half-full page until one of the two writes to it. */
  must(mla_cache_fork(cache, second, 9, &fork));
  must(append(cache, second, &next[0], 1));
  must(append(cache, fork, &next[1], 1));
  print(cache, "second", second);
  print(cache, "fork", fork);

  /* Running out is normal: something is freed, then the call is repeated. */
  while (append(cache, second, prompt, 8) == MLA_OUT_OF_PAGES) {
    printf("out of pages: the first request goes\n");
    must(mla_cache_free_sequence(cache, first));
  }

  /* The file holds who has which page; the rows are this program's to keep. */
  must(mla_cache_save(cache, path));
  must(mla_cache_create(&options, &other));
  must(mla_cache_restore(other, path));
  must(mla_cache_check(other));
  must(mla_cache_sequences(other, restored, 2, &count)); /* as before, with new ids */
  counters.struct_bytes = sizeof counters;
  must(mla_cache_get_counters(cache, 0, &counters));
  printf("%d of %d prompt tokens found, %d pages copied\n", (int)counters.hit_tokens,
         (int)counters.lookup_tokens, (int)counters.copied_pages);
  must(mla_cache_destroy(other));
  must(mla_cache_destroy(cache));
  return remove(path);
}
