// The list of all entries has whole vectors of 128 places, whatever the longest sequence: 16416 tokens are 129
// entries of 128, 1048576 are 8192.
//
// RUN: sed 's/_embeddings": 65536/_embeddings": 1026/' %data/configs/deepseek_v4.json > %t.json
// RUN: mla-opt %s --mla-import-config="config=%t.json layer=3" | FileCheck %s --check-prefix=SHORT
// SHORT: length = 16416
// SHORT: mla.seen_keys %{{.*}} every 128 : <query_len = ?> -> tensor<?xi32>, tensor<?x256xi32>
// RUN: mla-opt %s --mla-import-config="config=%data/configs/deepseek_v4.json layer=3" | FileCheck %s --check-prefix=LONG
// LONG: mla.seen_keys %{{.*}} every 128 : <query_len = ?> -> tensor<?xi32>, tensor<?x8192xi32>
