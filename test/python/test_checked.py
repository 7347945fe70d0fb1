# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers and texts that do not fit where the library takes them: refused, with value and limit,
where ctypes would keep the low bits of one and the beginning of the other."""

import array
import tracemalloc
import unittest

import mlac

INT32, INT64 = "from -2147483648 to 2147483647", "from -9223372036854775808 to 9223372036854775807"


class CheckedTest(unittest.TestCase):
    def setUp(self):
        self.cache = mlac.Cache([{"name": "latent", "num_pages": 4, "page_rows": 4}], 16)
        self.sequence = self.cache.sequence()

    def refused(self, text):
        return self.assertRaisesRegex(mlac.InvalidArgument, text)

    def test_arguments_of_calls(self):
        with self.refused(f"mla_cache_reserve: argument 3: expected an integer {INT64}, "
                          f"got {2 ** 64 + 3}$"):
            self.cache.reserve(self.sequence, 2 ** 64 + 3)
        self.assertEqual(self.cache.length(self.sequence), 0)
        with self.refused(f"mla_device_open: .*{INT32}, got 4294967297$"):
            mlac.Device("cpu", threads=2 ** 32 + 1)
        with self.refused("mla_cache_length: .*from 0 to 18446744073709551615, got -1$"):
            self.cache.length(-1)

    def test_lists(self):
        with self.refused(rf"counts\[1\]: expected an integer {INT32}, got 4294967297$"):
            self.cache.append([self.sequence] * 2, [0, 1], [1, 2 ** 32 + 1])
        with self.refused(rf"positions\[0\]: expected an integer {INT64}"):
            self.cache.append([self.sequence], [2 ** 64], [1])
        with self.refused(rf"tokens\[2\]: expected an integer {INT32}, got -2147483649$"):
            self.cache.match(self.sequence, [1, 2, -2 ** 31 - 1])
        with self.refused(r"query_lens\[0\]: .*, got 2147483648$"):
            mlac.arrange_batch([2 ** 31])
        self.assertEqual(mlac.arrange_batch([2 ** 31 - 1, 1]).order, (1, 0))
        self.assertEqual(mlac.arrange_batch(array.array("q", [5, 1])).num_decodes, 1)

    def test_lists_of_other_lengths(self):
        """The library would read behind the shorter one's end."""
        other = self.cache.sequence()
        with self.refused("counts: expected 2 elements, got 1$"):
            self.cache.append([self.sequence, other], [0, 0], [1])
        with self.refused("positions: expected 2 elements, got 3$"):
            self.cache.append([self.sequence, other], [0, 0, 0], [1, 1])
        self.assertEqual((self.cache.length(self.sequence), self.cache.length(other)), (0, 0))
        with self.refused("columns: expected those of at most 2 fields of a row, got 3$"):
            mlac.CacheLayout("mla_f32", columns=(512, 64, 3))

    def test_absurd_counts_are_refused_before_there_is_memory_for_their_slots(self):
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        with self.refused("append of 536870912 tokens at position 0, limit max_seq_len = 16$"):
            self.cache.append([self.sequence], [0], [2 ** 29])
        self.assertLess(tracemalloc.get_traced_memory()[1], 2 ** 24)
        self.assertEqual(self.cache.length(self.sequence), 0)

    def test_many_slots(self):
        """More than the append itself gives: two requests of them, each with its own."""
        rows = 2 ** 20
        cache = mlac.Cache([{"name": "latent", "num_pages": 17, "page_rows": 65536}], rows)
        sequences = [cache.sequence(), cache.sequence()]
        slots = cache.append(sequences, [0, 0], [rows, 2])
        self.assertEqual(slots[:rows], cache.slots(sequences[0], 0, rows))
        self.assertEqual(slots[rows:], cache.slots(sequences[1], 0, 2))
        self.assertEqual(len(set(slots)), rows + 2)

    def test_fields(self):
        with self.refused(f"num_pages: expected an integer {INT64}, got {2 ** 65}$"):
            mlac.Cache([{"name": "latent", "num_pages": 2 ** 65, "page_rows": 4}], 16)
        with self.refused("max_seq_len: .*got 18446744073709551632$"):
            mlac.Cache([{"name": "latent", "num_pages": 4, "page_rows": 4}], 2 ** 64 + 16)
        with self.refused("page_size: "):
            mlac.CacheLayout("mla_f32", page_size=2 ** 63)

    def test_what_is_no_integer(self):
        for wrong in (1.0, "1", None):
            with self.assertRaisesRegex(TypeError, "mla_cache_reserve: argument 3: .*integer"):
                self.cache.reserve(self.sequence, wrong)
            with self.assertRaisesRegex(TypeError, r"counts\[0\]: expected an integer, got "):
                self.cache.append([self.sequence], [0], [wrong])
        for wrong in ((None, [0], [1]), ([self.sequence], [0], None)):
            with self.refused("(sequences|counts): expected a list of integers, got None$"):
                self.cache.append(*wrong)

    def test_what_is_no_list(self):
        table = self.cache.table(mlac.Device(), 1, 1)
        self.addCleanup(table.close)
        layout = mlac.CacheLayout("mla_f32", num_pages=1, page_size=1)
        row = array.array("f", [0] * 576)
        one = [[0]]
        for name, call in {
                "pools": lambda wrong: mlac.Cache(wrong, 16),
                "tokens": lambda wrong: self.cache.match(self.sequence, wrong),
                "tokens ": lambda wrong: self.cache.publish(self.sequence, wrong),
                "query_lens": mlac.arrange_batch,
                "items": mlac.arrange_batch([1]).apply,
                "slots": lambda wrong: layout.encode(row, bytearray(4 * 576), wrong),
                "slots ": table.update,
                "columns": lambda wrong: mlac.CacheLayout("mla_f32", columns=wrong),
                "positions": lambda wrong: mlac.convert_indices(wrong, [0], one, 1, 1),
                r"positions\[0\]": lambda wrong: mlac.convert_indices([wrong], [0], one, 1, 1),
                "requests": lambda wrong: mlac.convert_indices(one, wrong, one, 1, 1),
                "block_table": lambda wrong: mlac.convert_indices(one, [0], wrong, 1, 1),
                "workspace_starts": lambda wrong: mlac.convert_indices(one, [0], one, 1, 1,
                                                                       workspace_starts=wrong)}.items():
            for wrong in (5, iter([1])):
                with self.subTest(name), self.refused(f"^{name.strip()}: expected a list of .*, got "):
                    call(wrong)
        with self.refused("items: expected 1, one for each request, got 2$"):
            mlac.arrange_batch([1]).apply([1, 2])

    def test_pools_say_their_place_and_fields(self):
        pool = {"name": "latent", "num_pages": 4, "page_rows": 4}
        for wrong, text in ((5, "expected a dict with name, num_pages, .*, got 5$"),
                            ({**pool, "rows": 4}, "unknown field 'rows', expected some of name, "),
                            ({"name": "latent"}, "expected a field 'num_pages', got ")):
            with self.subTest(wrong), self.refused(rf"^pools\[1\]: {text}"):
                mlac.Cache([pool, wrong], 16)

    def test_what_ctypes_or_int_would_take(self):
        """The address of a text for a stream's; slot 1 for slot 1.5."""
        for wrong in ("default", b"1", 1.0):
            with self.assertRaisesRegex(TypeError, "^stream: expected None, the address .*, got "):
                self.cache.compact(stream=wrong)
        self.assertEqual(self.cache.compact(stream=0), 0)
        layout = mlac.CacheLayout("mla_f32", num_pages=1, page_size=2)
        with self.assertRaisesRegex(TypeError, r"^slots\[0\]: expected an integer, got 1.5$"):
            layout.encode(array.array("f", [0] * 576), bytearray(8 * 576), [1.5])

    def test_what_is_no_name_of_a_file(self):
        for name, call in (("source", mlac.Package), ("path", mlac.Checkpoint),
                           ("path", self.cache.save), ("path", self.cache.restore)):
            for wrong in (5, None, []):
                with self.assertRaisesRegex(TypeError, f"^{name}: expected the name of a file, got "):
                    call(wrong)

    def test_what_is_of_another_kind(self):
        device = mlac.Device()
        self.addCleanup(device.close)
        for call in (mlac.Layers, lambda *given: mlac.replay(*given, "step")):
            with self.refused("^package: expected a mlac.Package, got 5$"):
                call(5, device)
        with self.assertRaisesRegex(TypeError, "^layer_scale: .*, got 'x'$"):
            mlac.CacheLayout("mla_f32", layer_scale="x")
        with self.assertRaisesRegex(TypeError, "^field: expected a str, got 5$"):
            mlac.CacheLayout("mla_f32", num_pages=1).offset(5, 0)

    def test_texts(self):
        with self.refused("mla_device_open: argument 1: expected text without a zero, got b'cpu.x00"):
            mlac.Device("cpu\0:1")
        with self.refused("expected text without a zero"):
            mlac.Package("layer.mlac\0.txt")
        with self.assertRaises(mlac.Corrupt):  # bytes are a package's content, zeros and all
            mlac.Package(b"MLAC\0" * 30)

    def test_why_an_array_was_not_taken(self):
        class Array:
            def __dlpack_device__(self):
                return 1, 0

            def __dlpack__(self, **_):
                raise BufferError("it requires gradients")

        with self.assertRaisesRegex(ValueError, "rows: .*got Array: it requires gradients"):
            mlac.CacheLayout("mla_f32", num_pages=1).encode(Array(), bytearray(16))


if __name__ == "__main__":
    unittest.main()
